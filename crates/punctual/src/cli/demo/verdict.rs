//! How things stand, in one line: what needs somebody first.

use jiff::Timestamp;

use super::watch::{Standing, Watcher};

/// The line that is read first.
pub(super) fn verdict(watcher: &Watcher, now: Timestamp) -> String {
    let names = |standing: Standing| {
        let found = watcher.schedules.iter().filter(|watched| watched.standing(now) == standing);
        found.map(|watched| watched.name().to_owned()).collect::<Vec<_>>()
    };
    let waiting = watcher.queues.iter().filter(|queue| queue.paused && queue.depth.value > 0);
    let waiting = waiting.map(|queue| format!("{} holds {} jobs", queue.name, queue.depth.value));
    let troubles = [
        told(&names(Standing::Failing), "fails", "fail"),
        told(&names(Standing::Overdue), "is overdue", "are overdue"),
    ];
    let troubles: Vec<_> = troubles.into_iter().flatten().collect();
    let head = if troubles.is_empty() { "all well".to_owned() } else { troubles.join(", ") };
    let paused = told(&names(Standing::Paused), "is paused", "are paused");
    let running: u64 = watcher.queues.iter().map(|queue| queue.running.value).sum();
    let pace = format!("{running} running, {:.1} jobs/s", watcher.rate(now));
    let parts = ["demo data".to_owned(), head].into_iter().chain(paused).chain(waiting).chain([pace]);
    parts.collect::<Vec<_>>().join(" · ")
}

/// Up to two names with their verb; more are counted.
fn told(names: &[String], one: &str, many: &str) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("{name} {one}")),
        [first, second] => Some(format!("{first} and {second} {many}")),
        more => Some(format!("{} schedules {many}", more.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_up_to_two_and_counted_beyond() {
        let told =
            |names: &[&str]| told(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), "fails", "fail");
        assert_eq!(told(&[]), None);
        assert_eq!(told(&["a"]).as_deref(), Some("a fails"));
        assert_eq!(told(&["a", "b"]).as_deref(), Some("a and b fail"));
        assert_eq!(told(&["a", "b", "c"]).as_deref(), Some("3 schedules fail"));
    }
}
