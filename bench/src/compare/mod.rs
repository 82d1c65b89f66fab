//! Punctual beside its peers and beside hand-written SQL: the same scenarios on the same server, in alternating order.
//!
//! Everybody plays in a process of its own, on an empty database of its own. A figure counts only if every job of its run
//! is accounted for by the tables, and the server's durability was read from that very server.

mod arena;
mod drain;
mod enqueue;
mod latency;
mod slots;
mod sustained;
mod verdicts;

use crate::load::Outcome;
use arena::Arena;

/// What is compared.
const PARTS: [&str; 6] = ["drain", "sqlite", "enqueue", "latency", "sustained", "slots"];

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
        if (self.rounds, self.percent, self.only.len()) == (3, 100, 0) {
            return format!("compare {part}");
        }
        [format!("compare {part} {} {}", self.rounds, self.percent)]
            .into_iter()
            .chain(self.only.clone())
            .collect::<Vec<_>>()
            .join(" ")
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
    runtime.block_on(async {
        for part in parts {
            let arena = Arena::open(extent.clone()).await?;
            match part {
                "drain" => drain::on_postgres(arena).await?,
                "sqlite" => drain::on_sqlite(arena).await?,
                "enqueue" => enqueue::run(arena).await?,
                "latency" => latency::run(arena).await?,
                "sustained" => sustained::run(arena).await?,
                _ => slots::run(arena).await?,
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::Extent;

    #[test]
    fn what_was_asked_for_is_part_of_the_command() {
        let whole = Extent { rounds: 3, percent: 100, only: Vec::new() };
        assert_eq!(whole.command("drain"), "compare drain");
        assert_eq!(Extent { rounds: 1, ..whole.clone() }.command("slots"), "compare slots 1 100");
        let some = Extent { only: vec!["awa".to_owned(), "huey".to_owned()], ..whole };
        assert_eq!(some.command("drain"), "compare drain 3 100 awa huey");
    }
}
