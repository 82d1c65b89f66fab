//! What is read out of contestants' answers, and what makes an answer worth nothing.

use super::player::Store;
use crate::load::Outcome;
use serde_json::{Value, json};

/// A whole number.
pub fn count(answer: &Value, key: &str) -> Outcome<usize> {
    let number = answer[key].as_u64().ok_or_else(|| format!("'{key}' is missing in {answer}"))?;
    Ok(usize::try_from(number)?)
}

/// A whole number that not everybody tells.
pub fn count_if_told(answer: &Value, key: &str) -> Outcome<Option<usize>> {
    if answer.get(key).is_none_or(Value::is_null) { Ok(None) } else { count(answer, key).map(Some) }
}

/// A number.
pub fn figure(answer: &Value, key: &str) -> Outcome<f64> {
    Ok(answer[key].as_f64().ok_or_else(|| format!("'{key}' is missing in {answer}"))?)
}

/// Times in milliseconds, all of which must be numbers.
pub fn times(answer: &Value) -> Outcome<Vec<f64>> {
    let list = answer["ms"].as_array().ok_or("no times in 'ms'")?;
    list.iter().map(|time| time.as_f64().ok_or_else(|| format!("{time} is no time").into())).collect()
}

/// Refuses who may lose what it has promised, by what its own connection says. What the server says is known already; a
/// file is as durable as the connection that writes it, so that a peer has to say it.
pub fn check_durable(ready: &Value, store: Store, is_peer: bool) -> Outcome<()> {
    if let Some(commit) = ready.get("synchronous_commit").filter(|commit| **commit != json!("on")) {
        return Err(format!("not durable: synchronous_commit is {commit}, not on").into());
    }
    let (journal, synchronous) = (&ready["journal_mode"], &ready["synchronous"]);
    let is_told = !journal.is_null() || !synchronous.is_null();
    if store == Store::Postgres || !(is_peer || is_told) {
        return Ok(());
    }
    let is_wal = journal.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("wal"));
    if is_wal && synchronous.as_i64() == Some(2) {
        return Ok(());
    }
    let found = format!("journal_mode is {journal} and synchronous {synchronous}, not wal and 2");
    Err(format!("not known to be durable: {found}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_on_a_file_counts_only_if_it_says_that_it_is_durable() {
        let on_file = |ready: Value, is_peer| check_durable(&ready, Store::Sqlite, is_peer).is_ok();
        assert!(on_file(json!({ "journal_mode": "WAL", "synchronous": 2 }), true));
        assert!(!on_file(json!({ "journal_mode": "wal", "synchronous": 1 }), true));
        assert!(!on_file(json!({ "journal_mode": "delete", "synchronous": 2 }), true));
        assert!(!on_file(json!({}), true), "who says nothing may be anything");
        assert!(on_file(json!({}), false), "our own look for themselves");
        assert!(!on_file(json!({ "journal_mode": "wal", "synchronous": 0 }), false));
    }

    #[test]
    fn a_connection_that_does_not_wait_for_the_disk_is_refused() {
        let on_server = |ready: Value| check_durable(&ready, Store::Postgres, true).is_ok();
        assert!(on_server(json!({ "synchronous_commit": "on" })) && on_server(json!({})));
        assert!(!on_server(json!({ "synchronous_commit": "off" })));
    }

    #[test]
    fn what_is_missing_is_named_and_what_may_be_missing_is_nothing() {
        let answer = json!({ "jobs": 7, "ms": [1.5, 2], "left": null });
        assert_eq!(count(&answer, "jobs").ok(), Some(7));
        assert!(count(&answer, "kept").unwrap_err().to_string().contains("kept"));
        assert_eq!(count_if_told(&answer, "left").ok(), Some(None));
        assert_eq!(times(&answer).ok(), Some(vec![1.5, 2.0]));
        assert!(times(&json!({ "ms": [null] })).is_err());
    }
}
