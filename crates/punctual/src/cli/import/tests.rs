//! Importers fed with garbage: whatever it is, nobody panics, and what comes out is taken by Punctual.

use proptest::prelude::*;

use super::crontab::{self, CrontabOptions};
use super::kubernetes::{self, KubernetesOptions, RunAs};
use super::pg_cron;
use super::reading::Reading;
use super::systemd::{self, SystemdOptions, UnitFile};

/// Text of pieces that mean something, broken by some that do not.
fn garbage(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(pieces).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "[0-9*/,.~@%$:;'\"\\\\ -]{0,12}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Names are unique, and nothing that is refused is handed on.
fn judge(reading: Reading) {
    let drafts = reading.drafts.len();
    let imported = reading.named("p", jiff::Timestamp::now());
    let names: std::collections::BTreeSet<&str> = imported.schedules.iter().map(|each| each.name.as_str()).collect();
    assert_eq!(names.len(), imported.schedules.len());
    assert!(imported.schedules.len() <= drafts);
    assert!(imported.differences.iter().all(|each| !each.remark.what.is_empty() && !each.remark.remedy.is_empty()));
}

proptest! {
    #[test]
    fn no_crontab_is_too_odd(
        text in garbage(&["* * * * * ", "\n", "@daily ", "A=b\n", "MAILTO=", "'", "%", "\\%", "-q ", "1-5/2,7 ", "mon ", "root ", "5/9 * * * 7 x\n"]),
        system in any::<bool>(),
    ) {
        judge(crontab::read("f", &text, &CrontabOptions { system, timezone: "UTC".into(), ..CrontabOptions::default() }));
    }

    #[test]
    fn no_unit_is_too_odd(
        timer in garbage(&["[Timer]\n", "OnCalendar=", "Mon..Fri ", "*-*-1..7 ", "1:00\n", "OnUnitActiveSec=5min\n", "~", "RandomizedDelaySec=1h\n", "\\\n", "Persistent=yes\n"]),
        service in garbage(&["[Service]\n", "ExecStart=", "/bin/a ", "${X} ", "$Y ", "%i ", "%", "\n", "-", "Environment=X=1\n", "User=a\n", "\\x41", "EnvironmentFile=-/x\n"]),
    ) {
        let file = |name: &str, text: &String| UnitFile {
            path: name.into(),
            name: name.into(),
            text: text.clone(),
            alias_of: None,
            of_user: false,
        };
        let files = [file("a@b.timer", &timer), file("a@.service", &service)];
        judge(systemd::read(&files, &SystemdOptions { timezone: "Europe/Berlin".into(), ..SystemdOptions::default() }));
    }

    #[test]
    fn no_manifest_is_too_odd(
        text in garbage(&["kind: CronJob\n", "apiVersion: batch/v1\n", "metadata: {name: a}\n", "spec:\n", "  schedule: ", "\"*/5 * * * *\"\n", "---\n", "  jobTemplate: {}\n", "- ", "&a ", "*a", "{", "}", "[", "]"]),
        command in any::<bool>(),
    ) {
        let run_as = if command { RunAs::Command } else { RunAs::Kubectl };
        judge(kubernetes::read("f", &text, &KubernetesOptions { run_as, timezone: None }));
    }

    #[test]
    fn no_rows_are_too_odd(
        text in garbage(&["jobid,schedule,command\n", "1,", "* * * * *", "\"", ",", "\n", "[{", "\"schedule\":", "\"command\": \"x\"", "}]", "5 seconds", "$"]),
    ) {
        judge(pg_cron::read("f", &text, None));
    }
}
