//! What applications enqueue beside the schedules: mails, pictures, reports, in the past and now.

use jiff::{SignedDuration, Timestamp};
use punctual_core::job::NewJob;
use punctual_core::store::StoreResult;
use punctual_core::target::Target;
use serde_json::{Value, json};

use super::cast::{PAUSED_QUEUE, json_of};
use super::dice::Dice;
use super::script::World;

/// How many visits an hour of the day brings, from midnight on (UTC).
const VISITS: [u64; 24] = [2, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 6, 6, 5, 5, 6, 6, 7, 8, 8, 7, 6, 4, 3];

/// The number of the first job of the present; those of the past count hours in thousands.
pub(super) const FIRST_OF_PRESENT: i64 = 10_000_000;

/// What the hours of the history brought, visit by visit.
pub(super) fn of_the_past(world: &World) -> StoreResult<Vec<(Timestamp, Vec<NewJob>)>> {
    let hours = world.present.duration_since(world.origin).as_hours();
    let mut visits = Vec::new();
    for hour in 0..hours {
        let begins_at = world.origin + SignedDuration::from_hours(hour);
        let mut dice = world.dice("traffic", begins_at);
        let count = VISITS.get(usize::try_from(hour % 24).unwrap_or(0)).copied().unwrap_or(0);
        for number in 0..count {
            let at = begins_at + dice.between_ms(0, 3_599_000);
            let mut visit = Visit { dice: dice.clone(), n: hour * 1000 + i64::try_from(number).unwrap_or(0) * 10 };
            visits.push((at, visit.jobs()?));
        }
    }
    Ok(visits)
}

/// One visit to the shop, and what it leads to.
pub(super) struct Visit {
    pub(super) dice: Dice,
    /// The number of the next job.
    pub(super) n: i64,
}

impl Visit {
    /// Mostly a mail or pictures; now and then a report or a film.
    pub(super) fn jobs(&mut self) -> StoreResult<Vec<NewJob>> {
        match self.dice.below(100) {
            0..94 => self.small_jobs(),
            94..98 => Ok(vec![self.report()?]),
            _ => Ok(vec![self.film()?]),
        }
    }

    /// What is soon done: a mail, or a few pictures.
    pub(super) fn small_jobs(&mut self) -> StoreResult<Vec<NewJob>> {
        if self.dice.per_mille(600) { Ok(vec![self.mail()?]) } else { self.album() }
    }

    /// A mail; somebody who waits for a new password goes before the others.
    pub(super) fn mail(&mut self) -> StoreResult<NewJob> {
        let template = self.dice.word(&["welcome", "order", "order", "shipped", "password"]);
        let job = self.job("email.send", "mail", json!({ "template": template }))?;
        let priority = if template == "password" { 10 } else { 0 };
        Ok(NewJob { priority, tags: vec![format!("template:{template}")], ..job })
    }

    /// A few pictures of one album, which are taken one after the other.
    pub(super) fn album(&mut self) -> StoreResult<Vec<NewJob>> {
        let album = format!("album:{}", 100 + self.dice.below(40));
        let pictures = 1 + self.dice.below(3);
        let picture = |number| {
            let job = self.job("image.resize", "images", json!({ "album": album, "picture": number }))?;
            Ok(NewJob { serial_key: Some(album.clone()), tags: vec![album.clone()], ..job })
        };
        (1..=pictures).map(picture).collect()
    }

    /// A report that somebody asks for.
    pub(super) fn report(&mut self) -> StoreResult<NewJob> {
        let report = self.dice.word(&["sales", "stock", "returns"]);
        let job = self.job("report.render", "reports", json!({ "report": report, "format": "csv" }))?;
        Ok(NewJob { priority: 3, owner: Some("sales".to_owned()), ..job })
    }

    /// A film, which takes a while.
    pub(super) fn film(&mut self) -> StoreResult<NewJob> {
        self.job("video.transcode", "images", json!({ "codec": "av1" }))
    }

    /// A mail to many, for the queue that is paused.
    pub(super) fn bulk_mail(&mut self) -> StoreResult<NewJob> {
        let job = self.job("email.batch", PAUSED_QUEUE, json!({ "list": "spring-sale" }))?;
        Ok(NewJob { priority: -10, ..job })
    }

    /// An invoice that somebody wants at once.
    pub(super) fn invoice(&mut self) -> StoreResult<NewJob> {
        let customer = format!("customer:{}", 1 + self.dice.below(20));
        let job = self.job("invoice.sync", "billing", json!({ "customer": customer }))?;
        Ok(NewJob { serial_key: Some(customer.clone()), tags: vec![customer], ..job })
    }

    fn job(&mut self, task: &str, queue: &str, mut input: Value) -> StoreResult<NewJob> {
        input["n"] = self.n.into();
        self.n += 1;
        Ok(NewJob { queue: queue.to_owned(), input: json_of(&input)?, ..NewJob::new(Target::task(task)) })
    }
}
