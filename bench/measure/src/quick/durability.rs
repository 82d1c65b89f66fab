//! Whether a write that was acknowledged survives a power cut, judged by what the database says of itself.

use super::facts::StoreKind;
use std::collections::BTreeMap;

/// The settings that decide.
pub(super) fn names(store: StoreKind) -> &'static [&'static str] {
    match store {
        StoreKind::Postgres => &["fsync", "synchronous_commit", "full_page_writes"],
        StoreKind::Sqlite => &["journal_mode", "synchronous"],
    }
}

/// Why writes may be lost; empty when they may not. A setting that was not read counts as a reason.
pub(super) fn problems(store: StoreKind, settings: &BTreeMap<String, String>) -> Vec<String> {
    let value = |name: &str| settings.get(name).map(String::as_str);
    let is_sound = |name: &str| match (store, name) {
        // All of these wait for the own disk; they differ in what they wait for besides.
        (_, "synchronous_commit") => {
            matches!(value(name), Some("on" | "local" | "remote_write" | "remote_apply"))
        }
        (StoreKind::Postgres, _) => value(name) == Some("on"),
        (StoreKind::Sqlite, "journal_mode") => value(name) == Some("wal"),
        // FULL and EXTRA.
        (StoreKind::Sqlite, _) => matches!(value(name), Some("2" | "3")),
    };
    let unsound = names(store).iter().filter(|name| !is_sound(name));
    unsound
        .map(|name| value(name).map_or(format!("{name} was not read"), |value| format!("{name} is {value}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(store: StoreKind, settings: &[(&str, &str)]) -> Vec<String> {
        problems(store, &settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_server_is_durable_only_if_all_three_say_so() {
        let sound = [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")];
        assert_eq!(judged(StoreKind::Postgres, &sound), Vec::<String>::new());
        for (n, off) in ["fsync is off", "synchronous_commit is off", "full_page_writes is off"].iter().enumerate() {
            let mut settings = sound;
            settings[n].1 = "off";
            assert_eq!(judged(StoreKind::Postgres, &settings), [*off]);
        }
        let elsewhere = [sound[0], ("synchronous_commit", "remote_apply"), sound[2]];
        assert_eq!(judged(StoreKind::Postgres, &elsewhere), Vec::<String>::new());
    }

    #[test]
    fn what_was_not_read_is_not_durable() {
        assert_eq!(judged(StoreKind::Postgres, &[("fsync", "on")]).len(), 2);
        assert_eq!(judged(StoreKind::Sqlite, &[]), ["journal_mode was not read", "synchronous was not read"]);
    }

    #[test]
    fn a_file_is_durable_with_a_log_that_is_flushed_at_each_commit() {
        assert_eq!(judged(StoreKind::Sqlite, &[("journal_mode", "wal"), ("synchronous", "2")]), Vec::<String>::new());
        assert_eq!(judged(StoreKind::Sqlite, &[("journal_mode", "wal"), ("synchronous", "1")]), ["synchronous is 1"]);
        assert_eq!(
            judged(StoreKind::Sqlite, &[("journal_mode", "delete"), ("synchronous", "2")]),
            ["journal_mode is delete"]
        );
    }
}
