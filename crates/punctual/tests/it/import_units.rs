//! Units of systemd and manifests of Kubernetes with what is seldom seen: `punctual import` reads them as those do.

use crate::import::{Imported, import, run, said, write};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn timer(folder: &Path, name: &str, timer: &str, service: &str) {
    write(folder, &format!("{name}.timer"), &format!("[Timer]\n{timer}\n"));
    write(folder, &format!("{name}.service"), &format!("[Service]\n{service}\n"));
}

fn units(folder: &Path) -> Imported {
    import(&["systemd", folder.to_str().unwrap(), "--tz", "UTC"])
}

/// Runs a command as the engine does, and answers what it wrote.
fn ran(target: &Value, env: &[(&str, &str)]) -> String {
    let argv: Vec<&str> = target["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let mut command = Command::new(if target["shell"] == true { "/bin/sh" } else { argv[0] });
    if target["shell"] == true {
        command.args(["-c", argv[0], "sh"]);
    }
    let own =
        target["env"].as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.as_str().unwrap()));
    let output = command.args(&argv[1..]).env_clear().envs(own).envs(env.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nothing_but_variables_of_systemd_is_left_to_a_shell() {
    let folder = TempDir::new().unwrap();
    let echo = r"ExecStart=/usr/bin/printf <%%s> $$f $(id) --x=$EXTRA ${EXTRA} a${EXTRA}`id` $MORE";
    timer(folder.path(), "a", "OnCalendar=daily", echo);
    let values = [("EXTRA", "1 2"), ("MORE", "x  /*")];
    let imported = units(folder.path());
    let told = ran(&imported.schedule("a")["target"], &values);
    assert_eq!(told, "<$f><$(id)><--x=$EXTRA><1 2><a1 2`id`><x></*>");
    imported.tells("differs", 2, "split at white space");
}

#[test]
fn commands_are_split_and_escapes_read_as_systemd_does() {
    let folder = TempDir::new().unwrap();
    let service = r#"Type=oneshot
Environment="TWO='two two' too"
ExecStart=/usr/bin/printf "<%%s>" \101\x42 \; '\d' $TWO ${TWO} ; -/bin/false ; /bin/echo -n end"#;
    timer(folder.path(), "a", "OnCalendar=daily", service);
    let told = ran(&units(folder.path()).schedule("a")["target"], &[]);
    assert_eq!(told, r"<AB><;><\d><two two><too><'two two' too>end");
}

#[test]
fn a_file_of_variables_counts_more_than_the_unit_and_may_be_a_pattern() {
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "env/one.env", "A=file\n");
    let service = format!("Environment=A=unit B=unit\nEnvironmentFile={file}\nExecStart=/bin/echo ${{A}} ${{B}}");
    timer(folder.path(), "a", "OnCalendar=daily", &service);
    let many = format!("EnvironmentFile=-{}\nExecStart=/bin/echo ${{A}}", file.replace("one", "*"));
    timer(folder.path(), "b", "OnCalendar=daily", &many);
    let imported = units(folder.path());
    assert_eq!(ran(&imported.schedule("a")["target"], &[]), "file unit\n");
    assert_eq!(ran(&imported.schedule("b")["target"], &[]), "file\n");
}

#[test]
fn triggers_are_one_list_and_specifiers_are_filled_in() {
    let folder = TempDir::new().unwrap();
    timer(
        folder.path(),
        "a",
        "OnUnitActiveSec=5min\nOnCalendar=daily\nOnBootSec=\nOnCalendar=weekly",
        "ExecStart=/bin/a",
    );
    timer(folder.path(), "b", "OnUnitActiveSec=1h\nOnUnitActiveSec=99y\nOnUnitActiveSec=2h", "ExecStart=/bin/b");
    write(folder.path(), "w@daily.timer", "[Unit]\nDescription=Runs %i\n[Timer]\nOnCalendar=%i\nUnit=w@%i.service\n");
    write(folder.path(), "w@never.timer", "[Timer]\nOnCalendar=%i\n");
    write(folder.path(), "w@x.timer", "[Timer]\nOnCalendar=%H\n");
    write(folder.path(), "w@.service", "[Service]\nType=oneshot\nRuntimeMaxSec=5\nExecStart=/bin/w %i\n");
    let imported = units(folder.path());
    assert_eq!(imported.names(), ["a", "b", "w@daily"]);
    assert_eq!(imported.schedule("a")["cron"], "0 0 * * 1");
    assert_eq!(imported.schedule("b")["every"], "1h");
    imported.tells("note", 3, "99y");
    let daily = imported.schedule("w@daily");
    assert_eq!((&daily["cron"], &daily["description"]), (&json!("0 0 * * *"), &json!("Runs daily")));
    assert_eq!(daily["target"]["argv"], json!(["/bin/w", "daily"]));
    assert_eq!(daily["timeout"], "none");
    imported.tells("note", 3, "RuntimeMaxSec=5 has no effect");
    imported.tells("left_out", 2, "never");
    imported.tells("left_out", 2, "%H of OnCalendar");
}

#[test]
fn units_of_a_user_are_nobody_elses() {
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("systemd/user");
    timer(&own, "a", "OnCalendar=daily", "ExecStart=/bin/a %h %t");
    let imported = units(&own);
    let target = &imported.schedule("a")["target"];
    assert_eq!(target["argv"], json!(["/bin/a", "%h", "%t"]));
    assert_eq!(target["user"], Value::Null);
    imported.tells("lost", 2, "%h of ExecStart");
    imported.tells("lost", 2, "%t of ExecStart");
    imported.tells("differs", 2, "whose is not known");
    let imported = import(&["systemd", own.to_str().unwrap(), "--tz", "UTC", "--user", "root"]);
    let target = &imported.schedule("a")["target"];
    assert_eq!(
        (&target["argv"][1], &target["user"], &target["cwd"]),
        (&json!("/root"), &json!("root"), &json!("/root"))
    );
}

#[test]
fn drop_ins_of_many_units_count_and_links_are_no_units_of_their_own() {
    let folder = TempDir::new().unwrap();
    timer(folder.path(), "ab-cd", "OnCalendar=daily", "ExecStart=/bin/a");
    write(folder.path(), "service.d/all.conf", "[Service]\nEnvironment=ALL=1 NEAR=0\n");
    write(folder.path(), "ab-.service.d/near.conf", "[Service]\nEnvironment=NEAR=1\n");
    write(folder.path(), "timer.d/all.conf", "[Timer]\nPersistent=yes\n");
    write(folder.path(), "alias.timer.d/more.conf", "[Timer]\nRandomizedDelaySec=5\n");
    symlink("ab-cd.timer", folder.path().join("alias.timer")).unwrap();
    symlink("nowhere.service", folder.path().join("gone.service")).unwrap();
    let named = folder.path().join("ab-cd.timer");
    for (from, delayed) in [(folder.path(), true), (named.as_path(), false)] {
        let imported = units(from);
        assert_eq!(imported.names(), ["ab-cd"]);
        let schedule = imported.schedule("ab-cd");
        assert_eq!(schedule["target"]["env"], json!({ "ALL": "1", "NEAR": "1" }));
        assert_eq!((&schedule["missed"], schedule["jitter"] == "5s"), (&json!("once"), delayed));
        imported.tells("note", 1, "a link to nothing");
    }
}

const CRON_JOB: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: NAME}\nspec:\n  schedule: SCHEDULE\n  \
    timeZone: Europe/Berlin\n  FIELD\n  jobTemplate: {spec: {template: {spec: {containers: []}}}}\n";

fn cron_job(folder: &Path, name: &str, schedule: &str, field: &str) -> String {
    let text = CRON_JOB.replace("NAME", name).replace("SCHEDULE", schedule).replace("FIELD", field);
    write(folder, "job.yaml", &text)
}

#[test]
fn a_cron_job_that_means_the_same_is_fine_for_the_strict() {
    let folder = TempDir::new().unwrap();
    let file = cron_job(folder.path(), "a", "'0 3 * * *'", "successfulJobsHistoryLimit: 3");
    let (code, out, err) = said(&run(&["kubernetes", &file, "--strict"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("0 3 * * *"), "{out}");
    assert!(err.contains("KUBERNETES_SERVICE_HOST"), "{err}");
}

#[test]
fn fields_of_a_cron_job_are_read_as_the_cluster_reads_them() {
    let folder = TempDir::new().unwrap();
    for (schedule, cron) in [
        ("'0 3 * * 1/2'", "0 3 * * 1-6/2"),
        ("'0 3 * * MON/3,0'", "0 3 * * 1-6/3,0"),
        ("'0 3 5/10 * 1'", "0 3 5-31/10 * 1"),
        ("'0 3 */01 * 1'", "0 3 * * 1"),
    ] {
        let file = cron_job(folder.path(), "a", schedule, "suspend: yes");
        let imported = import(&["kubernetes", &file]);
        assert_eq!((&imported.schedule("a")["cron"], &imported.schedule("a")["paused"]), (&json!(cron), &json!(true)));
    }
    let file = cron_job(folder.path(), "a", "'@daily'", "failedJobsHistoryLimit: 0");
    import(&["kubernetes", &file]).tells("differs", 7, "failedJobsHistoryLimit 0");
    for (name, field, words) in [
        ("a", "suspend: maybe", ":7: suspend is \"maybe\""),
        ("a", "startingDeadlineSeconds: \"200\"", ":7: startingDeadlineSeconds is \"200\""),
        ("a", "concurrencyPolicy: 5", ":7: concurrencyPolicy is 5"),
        ("a", "concurrencyPolicy: Sometimes", ":7: concurrencyPolicy is \"Sometimes\""),
        ("-a", "suspend: no", ":3: `-a` is no name that Kubernetes takes"),
        ("'a; id'", "suspend: no", ":3: `a; id` is no name"),
    ] {
        let (code, _, err) = said(&run(&["kubernetes", &cron_job(folder.path(), name, "'@daily'", field)]));
        assert_eq!(code, Some(2), "{field}: {err}");
        assert!(err.contains(words), "{field}: {err}");
    }
    let many: Vec<String> = (0..70).map(|number| format!("l{number}: x")).collect();
    let labels = CRON_JOB.replace("{name: NAME}", &format!("{{name: a, labels: {{{}}}}}", many.join(", ")));
    let file =
        write(folder.path(), "labels.yaml", &labels.replace("SCHEDULE", "'@daily'").replace("FIELD", "suspend: off"));
    import(&["kubernetes", &file]).tells("lost", 3, "6 of 70 labels");
}
