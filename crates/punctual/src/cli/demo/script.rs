//! What each run of the demo does: how long it takes, what it says and how it ends, for the past and the present alike.

use jiff::{SignedDuration, Timestamp};
use punctual_core::closing::Again;
use punctual_core::id::JobId;
use punctual_core::job::Job;
use punctual_core::json::Json;
use punctual_core::records::{LogStream, Progress};
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use punctual_core::target::Target;
use serde::Deserialize;
use serde_json::{Value, json};

use super::dice::Dice;

/// What the ERP has answered since it went down: the error that a whole group of failures shares.
const ERP_DOWN: &str = "https://erp.example.com/v2/invoices answered 503 Service Unavailable: down for maintenance";

const PEOPLE: [&str; 8] = ["ada", "grace", "edsger", "barbara", "donald", "margaret", "alan", "frances"];

/// What all runs of one demo have in common.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// What everything that looks like chance follows from.
    pub(super) seed: u64,
    /// The midnight at which the history begins.
    pub(super) origin: Timestamp,
    /// When the present begins.
    pub(super) present: Timestamp,
    /// Since when the ERP does not answer.
    pub(super) erp_down_since: Timestamp,
}

impl World {
    /// A world whose history ends at an instant, after seven whole days and what the last day has seen so far.
    pub(super) fn ending_at(present: Timestamp, seed: u64) -> World {
        let day = SignedDuration::from_hours(24).as_secs();
        let midnight = Timestamp::from_second(present.as_second().div_euclid(day) * day).unwrap_or(present);
        World {
            seed,
            origin: midnight - SignedDuration::from_hours(7 * 24),
            present,
            erp_down_since: present - SignedDuration::from_hours(7),
        }
    }

    /// Dice for something at a time of the history.
    pub(super) fn dice(&self, about: &str, at: Timestamp) -> Dice {
        Dice::new(self.seed, about, at.duration_since(self.origin).as_secs())
    }

    /// What a job does when it starts at an instant.
    pub(super) fn script(&self, job: &Job, at: Timestamp) -> Script {
        let name = name_of(&job.spec.target);
        let number = match job.slot_at {
            Some(slot_at) => slot_at.duration_since(self.origin).as_secs(),
            None => number_of(&job.spec.input),
        };
        let scene = Scene {
            // What is wrong with the work itself is wrong with every attempt.
            work: Dice::new(self.seed, name, number),
            dice: Dice::new(self.seed.wrapping_add(u64::from(job.attempt)), name, number),
            first: job.attempt == 1,
            erp_down: at >= self.erp_down_since,
            day: at.duration_since(self.origin).as_secs_f64() / 86_400.0,
        };
        scene.play(name)
    }
}

/// The name of a task, or the name that a command was given.
fn name_of(target: &Target) -> &str {
    match target {
        Target::Task(task) => &task.name,
        Target::Command(command) => command.argv.last().map_or("", String::as_str),
        _ => "",
    }
}

/// The number that each job of the demo carries in its input.
fn number_of(input: &Json) -> i64 {
    #[derive(Deserialize)]
    struct Numbered {
        #[serde(default)]
        n: i64,
    }
    input.to::<Numbered>().map_or(0, |input| input.n)
}

/// What one run does.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// From its start to its end.
    pub(super) takes: SignedDuration,
    /// What it says, evenly spread over its time.
    pub(super) lines: Vec<String>,
    /// Whether it says how far it has come.
    pub(super) tells_progress: bool,
    /// A file that it leaves behind.
    pub(super) artifact: Option<(&'static str, String)>,
    /// How it ends.
    pub(super) ending: Ending,
}

/// How a run ends.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    /// Well, with an output.
    Done(Value),
    /// Badly, and trying again may help.
    Failed(String),
    /// Badly, and trying again will not help.
    Hopeless(String),
    /// As a command that ends with a code.
    Exit(i32),
}

impl Script {
    fn new(takes: SignedDuration, ending: Ending) -> Script {
        Script { takes, lines: Vec::new(), tells_progress: false, artifact: None, ending }
    }

    fn done(takes: SignedDuration, output: Value) -> Script {
        Script::new(takes, Ending::Done(output))
    }

    fn says<T: Into<String>>(self, lines: impl IntoIterator<Item = T>) -> Script {
        Script { lines: lines.into_iter().map(Into::into).collect(), ..self }
    }

    fn with_progress(self) -> Script {
        Script { tells_progress: true, ..self }
    }

    /// When each line is said after the start; the last one stands at the end.
    pub(super) fn told(&self) -> impl Iterator<Item = (SignedDuration, LogStream, &str)> {
        let count = i32::try_from(self.lines.len()).unwrap_or(i32::MAX).max(1);
        let failed = !matches!(self.ending, Ending::Done(_) | Ending::Exit(0));
        self.lines.iter().zip(1..).map(move |(line, number)| {
            let stream = if failed && number == count { LogStream::Stderr } else { LogStream::Stdout };
            (self.takes * number / (count + 1), stream, line.as_str())
        })
    }

    /// How far it has come when so many of its lines were said.
    pub(super) fn progress(&self, lines_said: usize) -> Option<Progress> {
        let percent = lines_said * 100 / self.lines.len().max(1);
        let note = lines_said.checked_sub(1).and_then(|last| self.lines.get(last));
        let percent = u8::try_from(percent).unwrap_or(100);
        note.filter(|_| self.tells_progress).map(|note| Progress::new(percent, note.as_str()))
    }

    /// What a node reports at its end.
    pub(super) fn end(&self, job: JobId) -> FinishedRun {
        let failed = |error: &str| FinishedRun::failed(job, ErrorCode::TargetError, error);
        match &self.ending {
            Ending::Done(output) => {
                FinishedRun { output: Json::from_value("output", output).ok(), ..FinishedRun::completed(job) }
            }
            Ending::Failed(error) => failed(error),
            Ending::Hopeless(error) => FinishedRun { again: Again::Never, ..failed(error) },
            Ending::Exit(code) => self.exit(job, *code),
        }
    }

    /// The end of a command, as the executor of commands reports it.
    fn exit(&self, job: JobId, code: i32) -> FinishedRun {
        let words = format!("exit code {code}");
        let usage = json!({
            "exit": words,
            "cpu_user_ms": i64::try_from(self.takes.as_millis()).unwrap_or(0) / 40,
            "cpu_system_ms": i64::try_from(self.takes.as_millis()).unwrap_or(0) / 160,
            "max_memory_bytes": 3_407_872,
            "processes_left_behind": 0,
        });
        let end = match code {
            0 => FinishedRun::completed(job),
            _ => FinishedRun::failed(job, ErrorCode::TargetError, words),
        };
        FinishedRun {
            exit_code: Some(code),
            output: Json::from_value("output", &self.lines.join("\n")).ok(),
            usage: Json::from_value("usage", &usage).ok(),
            ..end
        }
    }
}

/// What decides one run.
struct Scene {
    work: Dice,
    dice: Dice,
    first: bool,
    erp_down: bool,
    /// Days since the beginning.
    day: f64,
}

impl Scene {
    fn play(self, name: &str) -> Script {
        match name {
            "email.send" => self.send_email(),
            "email.batch" => self.send_batch(),
            "image.resize" => self.resize_image(),
            "image.sweep" => self.sweep_images(),
            "invoice.render" => self.render_invoices(),
            "invoice.sync" => self.sync_invoices(),
            "newsletter.send" => self.send_newsletter(),
            "report.render" => self.render_report(),
            "search.reindex" => self.reindex(),
            "video.transcode" => self.transcode(),
            "warehouse.export" => self.export_orders(),
            "nightly-backup" => self.back_up(),
            "price-feed" => self.read_prices(),
            _ => self.small_command(name),
        }
    }

    fn send_email(mut self) -> Script {
        let to = format!("{}@example.com", self.work.word(&PEOPLE));
        let takes = self.dice.between_ms(80, 600);
        let connected = "connected to mx.example.com".to_owned();
        if self.work.per_mille(5) {
            let error = format!("550 5.1.1 no such user: {to}");
            return Script::new(takes, Ending::Hopeless(error.clone())).says([connected, error]);
        }
        if self.first && self.dice.per_mille(35) {
            let error = "451 4.7.1 greylisted, try again later".to_owned();
            return Script::new(takes, Ending::Failed(error.clone())).says([connected, error]);
        }
        let id = format!("<{:08x}@mail.example.com>", self.dice.below(u64::from(u32::MAX)));
        Script::done(takes, json!({ "message_id": id })).says([connected, format!("250 queued for {to}")])
    }

    fn send_batch(mut self) -> Script {
        let (takes, mails) = (self.dice.between_ms(2_000, 9_000), 20 + self.dice.below(180));
        if self.first && self.dice.per_mille(20) {
            let error = "the connection to mx.example.com was reset".to_owned();
            return Script::new(takes, Ending::Failed(error.clone())).says([format!("{mails} mails wait"), error]);
        }
        Script::done(takes, json!({ "sent": mails })).says([format!("{mails} mails wait"), format!("{mails} sent")])
    }

    fn resize_image(mut self) -> Script {
        let takes = self.dice.between_ms(200, 1_800);
        let (width, height) = (1200 + self.work.below(4000), 900 + self.work.below(3000));
        let read = format!("{width} × {height} read");
        if self.work.per_mille(15) {
            let error = "cannot decode the PNG: unexpected end of file".to_owned();
            return Script::new(takes, Ending::Failed(error.clone())).says([error]);
        }
        Script::done(takes, json!({ "sizes": [1600, 800, 200] })).says([read, "3 sizes written".to_owned()])
    }

    fn sweep_images(mut self) -> Script {
        let found = self.dice.below(40);
        let takes = self.dice.between_ms(4_000, 18_000);
        Script::done(takes, json!({ "found": found }))
            .says([format!("{found} pictures without a thumbnail"), "all have one now".to_owned()])
            .with_progress()
    }

    fn sync_invoices(mut self) -> Script {
        if self.erp_down {
            let takes = self.dice.between_ms(900, 1_600);
            return Script::new(takes, Ending::Failed(ERP_DOWN.to_owned())).says(["asking for page 1", ERP_DOWN]);
        }
        let (takes, invoices) = (self.dice.between_ms(4_000, 16_000), self.dice.below(120));
        if self.first && self.dice.per_mille(40) {
            let error = "https://erp.example.com/v2/invoices gave no answer within 30s".to_owned();
            return Script::new(SignedDuration::from_secs(30), Ending::Failed(error.clone()))
                .says(["asking for page 1".to_owned(), error]);
        }
        Script::done(takes, json!({ "invoices": invoices })).says([
            "asking for page 1".to_owned(),
            "asking for page 2".to_owned(),
            format!("{invoices} invoices stored"),
        ])
    }

    fn render_invoices(mut self) -> Script {
        let (takes, invoices) = (self.dice.between_ms(5_000, 22_000), self.dice.below(120));
        Script::done(takes, json!({ "rendered": invoices })).says([format!("{invoices} invoices rendered")])
    }

    fn send_newsletter(mut self) -> Script {
        let (takes, readers) = (self.dice.between_ms(240_000, 420_000), 18_000 + self.dice.below(900));
        let parts = (1..=4).map(|quarter| format!("{} of {readers} sent", readers * quarter / 4));
        Script::done(takes, json!({ "readers": readers })).says(parts).with_progress()
    }

    fn render_report(mut self) -> Script {
        let (takes, orders) = (self.dice.between_ms(6_000, 45_000), 900 + self.dice.below(700));
        let lines = [("de", 41), ("fr", 23), ("nl", 17), ("us", 19)].map(|(country, share)| {
            let part = orders * share / 100;
            format!("{country},{part},{}\n", part * 57)
        });
        let table = format!("country,orders,revenue\n{}", lines.concat());
        let said = ["reading the orders".to_owned(), format!("{orders} orders"), "report.csv written".to_owned()];
        let script = Script::done(takes, json!({ "orders": orders })).says(said).with_progress();
        Script { artifact: Some(("report.csv", table)), ..script }
    }

    /// Five minutes on the first day, and a fifth as much more every day: in the end it is in its own way.
    fn reindex(mut self) -> Script {
        let products = 180_000.0 * (1.0 + self.day / 14.0);
        let noise = self.dice.between_ms(-20_000, 20_000);
        let takes = SignedDuration::try_from_secs_f64(300.0 * 1.23_f64.powf(self.day)).unwrap_or_default() + noise;
        let parts =
            (1..=10).map(|tenth| format!("{:.0} of {products:.0} products", products * f64::from(tenth) / 10.0));
        Script::done(takes, json!({ "products": products.round() })).says(parts).with_progress()
    }

    fn transcode(mut self) -> Script {
        let takes = self.dice.between_ms(20_000, 60_000);
        let parts = (1..=20).map(|part| format!("{} of 2400 frames", part * 120));
        Script::done(takes, json!({ "frames": 2400 })).says(parts).with_progress()
    }

    fn export_orders(mut self) -> Script {
        let (takes, orders) = (self.dice.between_ms(40_000, 90_000), self.dice.below(300));
        Script::done(takes, json!({ "orders": orders })).says([format!("{orders} orders handed over")])
    }

    fn back_up(mut self) -> Script {
        let takes = self.dice.between_ms(540_000, 840_000);
        // The third night.
        if self.first && (2.0..3.0).contains(&self.day) {
            let lines = ["dumping shop", "dumping crm", "pg_dump: error: connection to server was lost"];
            return Script::new(takes, Ending::Exit(1)).says(lines);
        }
        let gigabytes = 4.0 + self.day / 10.0;
        let lines = ["dumping shop".to_owned(), "dumping crm".to_owned(), format!("uploaded, {gigabytes:.1} GB")];
        Script::new(takes, Ending::Exit(0)).says(lines)
    }

    fn read_prices(mut self) -> Script {
        let takes = self.dice.between_ms(300, 1_500);
        if self.dice.per_mille(15) {
            return Script::new(takes, Ending::Exit(28)).says(["reading the reference rates", "timed out"]);
        }
        Script::new(takes, Ending::Exit(0)).says(["reading the reference rates", "31 rates stored"])
    }

    fn small_command(mut self, name: &str) -> Script {
        let takes = self.dice.between_ms(20, 400);
        Script::new(takes, Ending::Exit(0)).says([format!("{name}: done")])
    }
}
