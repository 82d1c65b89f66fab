//! Punctual beside its peers and beside hand-written SQL: the same scenarios on the same server, in alternating order.
//!
//! Everybody plays in a process of its own, on an empty database of its own. A figure counts only if every job of its run
//! is accounted for by the tables, and the server's durability was read from that very server.

mod answers;
mod arena;
mod drain;
mod enqueue;
mod failed;
mod latency;
mod player;
mod pools;
mod scenario;
mod slots;
mod sustained;
mod verdicts;

use crate::load::Outcome;
use arena::Arena;
use tokio::signal::unix::{SignalKind, signal};

/// What is compared.
pub const PARTS: [&str; 6] = ["drain", "sqlite", "enqueue", "latency", "sustained", "slots"];

/// What is asked for when nothing else is, and what a result must have at least that is kept.
const ROUNDS: usize = 3;
const WHOLE: usize = 100;

/// How much is done; small numbers are for trying.
#[derive(Debug, Clone)]
pub struct Extent {
    /// How often everybody plays.
    pub rounds: usize,
    /// Hundredths of the usual numbers of jobs.
    pub percent: usize,
    /// The peers that play; all when there are none.
    pub only: Vec<String>,
}

impl Extent {
    /// The command that does the same again.
    pub fn command(&self, part: &str) -> String {
        if (self.rounds, self.percent, self.only.len()) == (ROUNDS, WHOLE, 0) {
            return format!("compare {part}");
        }
        [format!("compare {part} {} {}", self.rounds, self.percent)]
            .into_iter()
            .chain(self.only.clone())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// So many hundredths of a number, and never fewer than `least`.
    fn of(&self, number: usize, least: usize) -> usize {
        (number * self.percent / WHOLE).max(least)
    }

    /// Whether there are too few rounds, or other numbers of jobs than those that are usual.
    fn is_short(&self) -> bool {
        self.rounds < ROUNDS || self.percent != WHOLE
    }

    /// What the sheet says if not everything was done; `peers` are those that played, `absent` those that could not.
    fn lacks(&self, peers: &[&str], absent: &[String]) -> Option<String> {
        let mut lacks = Vec::new();
        if self.is_short() {
            lacks.push(format!("This is a trial (rounds: {}, jobs: {} % of the usual).", self.rounds, self.percent));
        }
        if !self.only.is_empty() || !absent.is_empty() {
            let peers = if peers.is_empty() { "no peer".to_owned() } else { peers.join(", ") };
            lacks.push(format!("Only these played: {peers}."));
        }
        if !absent.is_empty() {
            lacks.push(format!("These could not: {}.", absent.join("; ")));
        }
        (!lacks.is_empty()).then(|| lacks.join(" "))
    }
}

/// Plays one part, or all of them.
pub fn run(part: Option<&str>, extent: &Extent) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let parts: Vec<&str> = match part {
        None => PARTS.to_vec(),
        Some(part) if PARTS.contains(&part) => vec![part],
        Some(other) => return Err(format!("there is no part `{other}`: one of {}", PARTS.join(", ")).into()),
    };
    if extent.rounds == 0 || extent.percent == 0 {
        return Err("there must be at least one round with at least one percent of the jobs".into());
    }
    runtime.block_on(async {
        let (mut interrupted, mut ended) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        // Whatever is under way is dropped, and with it the contestants, the server, and all folders.
        tokio::select! {
            done = play(&parts, extent) => done,
            _ = interrupted.recv() => Err("interrupted: what was not finished is not kept".into()),
            _ = ended.recv() => Err("told to end: what was not finished is not kept".into()),
        }
    })
}

async fn play(parts: &[&str], extent: &Extent) -> Outcome<()> {
    for part in parts {
        let arena = Arena::open(extent.clone()).await?;
        match *part {
            "drain" => drain::on_postgres(arena).await?,
            "sqlite" => drain::on_sqlite(arena).await?,
            "enqueue" => enqueue::run(arena).await?,
            "latency" => latency::run(arena).await?,
            "sustained" => sustained::run(arena).await?,
            _ => slots::run(arena).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Extent;

    fn whole() -> Extent {
        Extent { rounds: 3, percent: 100, only: Vec::new() }
    }

    #[test]
    fn what_was_asked_for_is_part_of_the_command() {
        assert_eq!(whole().command("drain"), "compare drain");
        assert_eq!(Extent { rounds: 1, ..whole() }.command("slots"), "compare slots 1 100");
        let some = Extent { only: vec!["awa".to_owned(), "huey".to_owned()], ..whole() };
        assert_eq!(some.command("drain"), "compare drain 3 100 awa huey");
    }

    #[test]
    fn less_than_everything_is_said_and_more_rounds_are_not_less() {
        assert_eq!(whole().lacks(&["awa"], &[]), None);
        assert_eq!(Extent { rounds: 7, ..whole() }.lacks(&["awa"], &[]), None);
        let words = |extent: Extent| extent.lacks(&["awa", "huey"], &[]).unwrap_or_default();
        assert_eq!(words(Extent { rounds: 2, ..whole() }), "This is a trial (rounds: 2, jobs: 100 % of the usual).");
        assert_eq!(words(Extent { percent: 10, ..whole() }), "This is a trial (rounds: 3, jobs: 10 % of the usual).");
        let some = Extent { only: vec!["awa".to_owned()], ..whole() };
        assert_eq!(words(some.clone()), "Only these played: awa, huey.");
        assert!(!some.is_short(), "against raw SQL it is a whole result");
        assert!(words(Extent { rounds: 1, ..some }).starts_with("This is a trial"));
        let without = whole().lacks(&["awa"], &["huey (no Python)".to_owned()]);
        assert_eq!(without.as_deref(), Some("Only these played: awa. These could not: huey (no Python)."));
    }
}
