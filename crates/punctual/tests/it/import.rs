//! `punctual import` as a user runs it: what is carried over, and what is said about the rest.

use crate::serve::punctual;
use crate::world::{World, on_both_stores};
use punctual_testkit::postgres::Database;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn run(args: &[&str]) -> Output {
    punctual(&[&["import"], args].concat()).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn import(args: &[&str]) -> Imported {
    let (code, out, err) = said(&run(&[args, &["--json"]].concat()));
    assert_eq!(code, Some(0), "{args:?}: {err}");
    Imported(serde_json::from_str(&out).unwrap())
}

pub(crate) struct Imported(pub(crate) Value);

impl Imported {
    /// The names, without the marks that tell them from others.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0["manifest"]["schedules"].as_object().unwrap().keys().map(|name| unmarked(name)).collect()
    }

    /// The first schedule of a name, without its mark or with it.
    pub(crate) fn schedule(&self, name: &str) -> &Value {
        let all = self.0["manifest"]["schedules"].as_object().unwrap();
        let found = all.get(name).or_else(|| all.iter().find(|(known, _)| unmarked(known) == name).map(|(_, it)| it));
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.names()))
    }

    /// Requires a remark of this kind, on this line, that holds these words.
    pub(crate) fn tells(&self, kind: &str, line: u64, words: &str) {
        let fits = |each: &&Value| {
            each["kind"] == kind && each["line"] == line && each["what"].as_str().unwrap().contains(words)
        };
        let report = self.0["report"].as_array().unwrap();
        assert!(report.iter().any(|each| fits(&each)), "{kind} {line} {words:?} in {report:#?}");
        assert!(report.iter().all(|each| !each["remedy"].as_str().unwrap().is_empty()));
    }

    pub(crate) fn kinds(&self, kind: &str) -> usize {
        self.0["report"].as_array().unwrap().iter().filter(|each| each["kind"] == kind).count()
    }
}

fn unmarked(name: &str) -> &str {
    let is_mark = |mark: &str| mark.len() == 6 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').filter(|(_, mark)| is_mark(mark)).map_or(name, |(name, _)| name)
}

const CRONTAB: &str = r#"# A crontab with everything in it.
SHELL=/bin/bash
MAILTO=ops@example.org
'SPACED' = "two  words "
CRON_TZ=Asia/Tokyo
RANDOM_DELAY=10
PUNCTUAL_X=1

*/15 8-18 * * mon-fri /opt/bin/report --daily
@daily cd / && backup --to "%HOME"
30 4 1,15 * 5 mail -s "it's \%" root%Hello%there%%end
@reboot /opt/bin/warm-up
0 0 30 2 * never
0 22-2 * * * backwards
0 22-2,5 * * * partly
10/20 * * * * stepped
-5 * * * * quiet
5 5 * * * -n -q -s flagged --x
"#;

#[test]
fn a_crontab_is_carried_over_line_by_line() {
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "tab", CRONTAB);
    let imported = import(&["crontab", &file, "--user", "root", "--tz", "Europe/Berlin"]);
    let report = imported.schedule("root-report");
    assert_eq!(report["cron"], "*/15 8-18 * * mon-fri");
    assert_eq!(report["timezone"], "Asia/Tokyo");
    assert_eq!(report["jitter"], "10m");
    for (field, value) in [("missed", "skip"), ("overlap", "allow"), ("timeout", "none")] {
        assert_eq!(report[field], value);
    }
    assert_eq!(report["retry"]["max_attempts"], 1);
    let target = &report["target"];
    assert_eq!(target["argv"], json!(["/bin/bash", "-c", "/opt/bin/report --daily"]));
    assert_eq!(target["env"], json!({ "PATH": "/usr/bin:/bin", "SHELL": "/bin/bash", "SPACED": "two  words " }));
    assert_eq!((&target["user"], &target["cwd"]), (&json!("root"), &json!("/root")));
    assert_eq!(imported.schedule("root-flagged")["overlap"], "forbid");
    assert_eq!(imported.schedule("root-flagged")["target"]["argv"][2], "flagged --x");
    assert_eq!(imported.schedule("root-quiet")["cron"], "5 * * * *");
    imported.tells("lost", 3, "ops@example.org");
    imported.tells("note", 5, "CRON_TZ");
    imported.tells("differs", 6, "RANDOM_DELAY");
    imported.tells("lost", 7, "PUNCTUAL_X");
    imported.tells("left_out", 12, "@reboot");
    imported.tells("left_out", 13, "no such date");
    imported.tells("left_out", 14, "runs backwards");
    imported.tells("note", 15, "22-2");
    assert_eq!(imported.schedule("root-partly")["cron"], "0 5 * * *");
    imported.tells("differs", 16, "10/20");
    imported.tells("note", 18, "-s");
    assert_eq!(imported.kinds("left_out"), 3);
}

#[test]
fn what_stands_behind_percent_signs_is_the_standard_input() {
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "tab", "* * * * * cat; echo \\%ok%one%two\\%%three\n");
    let imported = import(&["crontab", &file, "--tz", "UTC"]);
    let target = &imported.schedule("cat")["target"];
    let argv: Vec<&str> = target["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(target["shell"], true);
    // As the engine runs a script with arguments.
    let ran = Command::new("/bin/sh").args(["-c", argv[0], "sh"]).args(&argv[1..]).output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "one\ntwo%\nthree\n%ok\n");
    // A backslash that is itself escaped takes nothing from the percent sign, but behind the first of them it does.
    let file = write(folder.path(), "other", r"* * * * * cat a\\\%b\\%one\\%two");
    let target = import(&["crontab", &file, "--tz", "UTC"]).schedule("cat")["target"].clone();
    assert_eq!((&target["argv"][3], &target["argv"][1]), (&json!(r"cat a\\%b\\"), &json!(r"one\%two")));
}

#[test]
fn folders_and_standard_input_are_read_as_cron_would() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "cron.d/good", "1 2 * * * www-data /bin/a\n");
    write(folder.path(), "cron.d/bad.dpkg-old", "this is no crontab\n");
    write(folder.path(), "cron.d/.placeholder", "nor this\n");
    write(folder.path(), "crontabs/alice", "3 4 * * * /bin/b\n");
    write(folder.path(), "crontabs/bob.smith@corp", "3 4 * * * /bin/b\n");
    write(folder.path(), "crontabs/.hidden", "nor this\n");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let imported = import(&["crontab", &path("cron.d"), &path("crontabs"), "--prefix", "host1-", "--tz", "UTC"]);
    assert_eq!(imported.names(), ["host1-alice-b", "host1-bob.smith@corp-b", "host1-good-a"]);
    assert_eq!(imported.schedule("host1-good-a")["target"]["user"], "www-data");
    assert_eq!(imported.schedule("host1-alice-b")["target"]["user"], "alice");
    imported.tells("left_out", 1, "cron does not read this file");

    let mut child = punctual(&["import", "crontab", "-", "--json", "--tz", "UTC"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"0 1 * * * /bin/c\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let imported = Imported(serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!(imported.names(), ["c"]);
    imported.tells("differs", 1, "home");
}

#[test]
fn the_manifest_goes_out_and_the_report_beside_it() {
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "tab", "0 6 * * * /bin/a\n@reboot x\n");
    let (code, out, err) = said(&run(&["crontab", &file, "--tz", "UTC", "--owner", "ops"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("owner = \"ops\"") && out.contains("cron = \"0 6 * * *\""), "{out}");
    assert!(err.contains(&format!("{file}:2: left out: ")) && err.contains("1 schedules; 1 left out"), "{err}");
    for name in ["a.toml", "a.yaml", "a.json"] {
        let to = folder.path().join(name);
        let (code, out, err) = said(&run(&["crontab", &file, "--tz", "UTC", "-o", to.to_str().unwrap()]));
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(std::fs::read_to_string(to).unwrap().contains("0 6 * * *"));
    }
    let (code, _, err) = said(&run(&["crontab", &file, "-o", "a.ini"]));
    assert_eq!((code, err.contains(".toml, .yaml")), (Some(2), true), "{err}");
    let (code, out, err) = said(&run(&["crontab", &file, "--tz", "UTC", "--dry-run"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("NEXT") && out.contains("0 6 * * *"), "{out}");
    let (code, out, err) = said(&run(&["crontab", &file, "--tz", "UTC", "--strict"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("--strict"), "{err}");
}

#[test]
fn broken_sources_are_refused_with_file_and_line_and_nothing_is_imported() {
    let folder = TempDir::new().unwrap();
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let laughs: String = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let last = format!("*a{}", n - 1);
        format!("{text}a{n}: &a{n} [{}]\n", vec![last; 9].join(", "))
    });
    let long = format!("* * * * * {}\nbroken\n", "x".repeat(10_000_000));
    for (kind, name, bytes, words) in [
        ("crontab", "a", b"0 1 * * * x\n0 25 * * * y\n".to_vec(), "a:2: "),
        ("crontab", "b", b"* * * * * x\nnot a line\n".to_vec(), "b:2: "),
        ("crontab", "c", b"* * * * * x\n\n* * * * * \0\n".to_vec(), "c:3: holds a NUL"),
        ("crontab", "d", b"# \xe4\xf6\n".to_vec(), "d:1: is not UTF-8"),
        ("crontab", "e", long.into_bytes(), "e:2: "),
        ("crontab", "f", b"0 0 L * * x\n".to_vec(), "f:1: "),
        ("crontab", "g", b"@every 5m x\n".to_vec(), "g:1: "),
        ("systemd", "h.timer", b"[Timer]\nOnCalendar=daily\nOnCalendar=Fri..Mon\n".to_vec(), "h.timer:3: "),
        ("systemd", "i.timer", b"OnCalendar=daily\n".to_vec(), "i.timer:1: "),
        ("kubernetes", "j.yaml", laughs.into_bytes(), "j.yaml:"),
        ("kubernetes", "k.json", deep.into_bytes(), "k.json:"),
        (
            "kubernetes",
            "l.yaml",
            b"kind: CronJob\napiVersion: batch/v1\nmetadata: {name: a}\nspec:\n  schedule: 1 2\n".to_vec(),
            "l.yaml:5: ",
        ),
        ("kubernetes", "m.yaml", b"a: [\n".to_vec(), "m.yaml:"),
        ("pg_cron", "n.csv", b"jobid,schedule\n1,\"* *\n".to_vec(), "n.csv:2: "),
        ("pg_cron", "o.json", b"[{\"jobid\": 1,\n\"schedule\": \"* * * * *\"}]".to_vec(), "o.json:1: "),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        if kind == "systemd" {
            std::fs::write(path.with_extension("service"), "[Service]\nExecStart=/bin/true\n").unwrap();
        }
        let (code, out, err) = said(&run(&[kind, path.to_str().unwrap(), "--tz", "UTC"]));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{name}: {err}");
        assert!(err.contains(words) && err.contains("nothing was imported"), "{name}: {err}");
        assert!(err.len() < 10_000, "{name}: a message of {} bytes", err.len());
    }
    let (code, _, err) = said(&run(&["crontab", "/no/such/file"]));
    assert_eq!((code, err.contains("/no/such/file")), (Some(1), true), "{err}");
    let (code, _, err) = said(&run(&["crontab", "/dev/null", "--tz", "Mars/Base"]));
    assert_eq!((code, err.contains("Mars/Base")), (Some(2), true), "{err}");
}

#[test]
fn timers_bring_what_their_services_do() {
    let folder = TempDir::new().unwrap();
    write(
        folder.path(),
        "a.timer",
        "[Unit]\nDescription=A timer\n[Timer]\nOnCalendar=Mon 08:00\nOnCalendar=hourly\nPersistent=true\n\
         RandomizedDelaySec=1h 30min\nFixedRandomDelay=yes\nAccuracySec=1us\nWakeSystem=yes\nOnClockChange=yes\n",
    );
    write(
        folder.path(),
        "a.service",
        "[Unit]\nDescription=A service\nConditionACPower=true\n[Service]\nType=oneshot\nUser=www-data\nGroup=adm\n\
         Environment=\"A=b c\" D=e\nEnvironmentFile=-/etc/default/a\nWorkingDirectory=/srv\nTimeoutStartSec=5min\n\
         ExecStartPre=/bin/mkdir -p \"/run/a b\"\nExecStart=-/bin/echo ${A} $$x %p %m\nProtectSystem=full\nLimitNOFILE=10\n\
         Restart=on-failure\nRestartSec=3s\n",
    );
    write(folder.path(), "b@x.timer", "[Timer]\nOnUnitActiveSec=15min\nUnit=b@x.service\n");
    write(folder.path(), "b@.service", "[Service]\nExecStart=/bin/echo %i $D\nEnvironment=\"D=one two\"\n");
    write(folder.path(), "b@x.timer.d/more.conf", "[Timer]\nOnUnitActiveSec=\nOnBootSec=5min\nOnUnitActiveSec=20min\n");
    write(folder.path(), "c.timer", "[Timer]\nOnBootSec=30\n");
    write(folder.path(), "c.service", "[Service]\nExecStart=/bin/true\n");
    write(folder.path(), "d.timer", "[Timer]\nOnCalendar=daily\n");
    write(folder.path(), "e@.timer", "[Timer]\nOnCalendar=daily\n");
    let imported = import(&["systemd", folder.path().to_str().unwrap(), "--tz", "Europe/Berlin"]);
    assert_eq!(imported.names(), ["a", "a", "b@x"]);
    let a = imported.schedule("a");
    for (field, value) in [
        ("cron", "0 8 * * 1"),
        ("missed", "once"),
        ("overlap", "forbid"),
        ("jitter", "1h30m"),
        ("timeout", "5m"),
        ("dst_gap", "skip"),
        ("dst_overlap", "first"),
        ("description", "A service"),
    ] {
        assert_eq!(a[field], value, "{field}");
    }
    assert_eq!(a["retry"]["base"], "3s");
    let target = &a["target"];
    assert_eq!(target["env"], json!({ "A": "b c", "D": "e" }));
    assert_eq!((&target["user"], &target["cwd"]), (&json!("www-data"), &json!("/srv")));
    assert_eq!(target["limits"]["open_files"], 10);
    assert_eq!(
        target["argv"],
        json!([
            "{ [ ! -r /etc/default/a ] || { set -a && . /etc/default/a && set +a; }; } && /bin/mkdir -p '/run/a b' && \
                { /bin/echo \"${A}\" '$x' a %m || :; }"
        ])
    );
    let b = imported.schedule("b@x");
    assert_eq!((&b["every"], &b["missed"]), (&json!("20m"), &json!("skip")));
    assert_eq!(b["target"]["argv"], json!(["/bin/echo", "x", "one", "two"]));
    imported.tells("left_out", 2, "OnBootSec=30 runs once");
    imported.tells("left_out", 1, "which is not among the files");
    imported.tells("left_out", 1, "a template without an instance");
    imported.tells("differs", 7, "FixedRandomDelay");
    imported.tells("note", 9, "AccuracySec");
    imported.tells("lost", 10, "WakeSystem");
    imported.tells("lost", 11, "OnClockChange");
    imported.tells("lost", 3, "ConditionACPower, ProtectSystem");
    imported.tells("lost", 7, "Group=adm");
    imported.tells("lost", 13, "%m of ExecStart");
    imported.tells("differs", 16, "Restart=on-failure");
    imported.tells("differs", 3, "OnBootSec=5min");
}

const CRON_JOBS: &str = r#"apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata:
    name: report
    namespace: shop
    labels: {app: report}
    annotations: {note: x}
  spec:
    schedule: "0 3 */2 * 1"
    timeZone: Europe/Berlin
    startingDeadlineSeconds: 200
    concurrencyPolicy: Forbid
    suspend: true
    successfulJobsHistoryLimit: 5
    failedJobsHistoryLimit: 2
    jobTemplate:
      spec:
        backoffLimit: 2
        activeDeadlineSeconds: 600
        ttlSecondsAfterFinished: 60
        template:
          spec:
            restartPolicy: OnFailure
            serviceAccountName: reporter
            volumes: [{name: v, emptyDir: {}}]
            initContainers: [{name: i, image: busybox}]
            containers:
            - name: main
              image: registry.example/report:7
              command: [/app/report, "--to=$(TO)", "$$(TO)"]
              args: [$(MISSING)]
              workingDir: /app
              env:
              - {name: TO, value: ops}
              - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}
              - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
              envFrom: [{configMapRef: {name: c}}]
              resources: {limits: {memory: 1Gi}}
            - {name: side, image: sidecar}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
---
apiVersion: batch/v1beta1
kind: CronJob
metadata: {name: every}
spec:
  schedule: "@every 1h30m"
  concurrencyPolicy: Replace
  jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}
---
{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "zoned"},
 "spec": {"schedule": "CRON_TZ=Asia/Tokyo 5 4 ? * sun", "jobTemplate": {}}}
"#;

#[test]
fn cron_jobs_of_kubernetes_keep_every_field_or_name_it() {
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "jobs.yaml", CRON_JOBS);
    let imported = import(&["kubernetes", &file]);
    assert_eq!(imported.names(), ["every", "shop/report", "zoned"]);
    let report = imported.schedule("shop/report");
    assert_eq!(report["cron"], "0 3 1-31/2 * 1", "either day field is enough there");
    for (field, value) in [
        ("timezone", json!("Europe/Berlin")),
        ("missed", json!({ "policy": "once", "window": "200s" })),
        ("overlap", json!("forbid")),
        ("paused", json!(true)),
        ("labels", json!({ "app": "report" })),
        ("dst_gap", json!("skip")),
        ("dst_overlap", json!("both")),
    ] {
        assert_eq!(report[field], value, "{field}");
    }
    assert_eq!(report["target"]["argv"].as_array().unwrap()[1..], ["report", "report", "-n", "shop"]);
    assert_eq!(imported.schedule("every")["every"], "1h30m");
    assert_eq!(imported.schedule("every")["overlap"], "replace");
    let zoned = imported.schedule("zoned");
    assert_eq!((&zoned["cron"], &zoned["timezone"]), (&json!("5 4 * * sun"), &json!("Asia/Tokyo")));
    imported.tells("differs", 15, "Forbid");
    imported.tells("note", 16, "importing it again pauses");
    imported.tells("note", 17, "successfulJobsHistoryLimit 5");
    imported.tells("note", 18, "failedJobsHistoryLimit 2");
    imported.tells("note", 14, "startingDeadlineSeconds");
    imported.tells("lost", 4, "metadata.annotations");
    imported.tells("note", 43, "ConfigMap");
    imported.tells("note", 49, "read as UTC");

    let imported = import(&["kubernetes", &file, "--run-as", "command"]);
    assert_eq!(imported.names(), ["shop/report"], "the others do not say what they run");
    assert_eq!(imported.kinds("left_out"), 2);
    let report = imported.schedule("shop/report");
    let target = &report["target"];
    assert_eq!(target["argv"], json!(["/app/report", "--to=ops", "$(TO)", "$(MISSING)"]));
    assert_eq!(target["env"], json!({ "TO": "ops", "TOKEN": { "secret": "env:TOKEN" } }));
    assert_eq!((&target["cwd"], &report["timeout"]), (&json!("/app"), &json!("600s")));
    assert_eq!(report["retry"]["max_attempts"], 3);
    imported.tells("lost", 17, "successfulJobsHistoryLimit 5");
    imported.tells("lost", 18, "failedJobsHistoryLimit 2");
    imported.tells("differs", 38, "Secret");
    imported.tells("lost", 39, "fieldRef");
    imported.tells("lost", 32, "registry.example/report:7");
    imported.tells("lost", 42, "1 more containers");
    imported.tells("lost", 29, "init containers");
    let words = "container.envFrom, container.resources, job.ttlSecondsAfterFinished, pod.restartPolicy, \
                 pod.serviceAccountName, pod.volumes";
    imported.tells("lost", 20, words);
}

/// A `kubectl` that keeps Jobs in a folder: it knows the calls that the script makes, and nothing else.
const KUBECTL: &str = r#"#!/bin/sh
[ "$1 $2" = "-n shop" ] && shift 2 || exit 9
echo "$@" >> calls
case "$1 $2" in
  "create job") [ "$4" = "--from=cronjob/report" ] ;;
  "get job") [ "$4" = "--ignore-not-found" ] || [ -e condition ] || exit 1
    [ ! -e condition ] || echo "$3 $(cat condition)" ;;
  "delete job") ;;
  "logs job/report-000000000000") echo "said by the pod" ;;
  *) exit 9 ;;
esac
"#;

#[test]
fn a_job_of_the_cluster_is_made_waited_for_and_taken_away() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "jobs.yaml", CRON_JOBS);
    let program = write(folder.path(), "bin/kubectl", KUBECTL);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let imported = import(&["kubernetes", &file]);
    let argv = imported.schedule("shop/report")["target"]["argv"].as_array().unwrap().clone();
    let argv: Vec<&str> = argv.iter().map(|word| word.as_str().unwrap()).collect();
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let start = |condition: Option<&str>| {
        let _ = std::fs::remove_file(folder.path().join("condition"));
        if let Some(condition) = condition {
            std::fs::write(folder.path().join("condition"), condition).unwrap();
        }
        let _ = std::fs::remove_file(folder.path().join("calls"));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", argv[0], "sh"]).args(&argv[1..]).current_dir(folder.path()).env("PATH", &path);
        command.env("PUNCTUAL_JOB_ID", "01939d5f-6e2a-7000-8000-000000000000");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for (condition, code) in [("SuccessCriteriaMet Complete", 0), ("FailureTarget Failed", 1)] {
        let output = start(Some(condition)).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{condition}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("said by the pod"));
    }
    let gone = start(None).wait_with_output().unwrap();
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("the Job report-000000000000 is gone"));
    let mut child = start(Some(""));
    let calls = folder.path().join("calls");
    while !std::fs::read_to_string(&calls).unwrap_or_default().contains("get job") {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(std::fs::read_to_string(&calls).unwrap().contains("delete job report-000000000000 --wait=false"));
}

on_both_stores! {
    /// What any of the importers writes is taken as it is, and a second time changes nothing.
    async fn d03_imported_schedules_are_made_once(world: &World) {
        let folder = TempDir::new().unwrap();
        write(folder.path(), "a.timer", "[Timer]\nOnCalendar=Mon *-*-13\nOnCalendar=2030..2031-1-1 UTC\n");
        write(folder.path(), "a.service", "[Service]\nExecStart=/bin/true\n");
        for (kind, file) in [
            ("crontab", write(folder.path(), "tab", CRONTAB)),
            ("systemd", folder.path().to_str().unwrap().to_owned()),
            ("kubernetes", write(folder.path(), "jobs.yaml", CRON_JOBS)),
            ("pg_cron", write(folder.path(), "job.csv", PG_CRON_CSV)),
        ] {
            let line = [kind, &file, "--apply", "--tz", "Europe/Berlin", "--database", &world.url];
            let first = import(&line);
            let made = first.0["manifest"]["schedules"].as_object().unwrap().len();
            assert!(made > 0 && first.0["applied"]["is_empty"] == false, "{kind}: {}", first.0["applied"]);
            assert_eq!(import(&line).0["applied"]["is_empty"], true, "{kind}");
            let (code, out, err) = said(&run(&line));
            assert_eq!(code, Some(0), "{kind}: {out}{err}");
        }
        let list = || -> Value {
            let listed = punctual(&["schedule", "ls", "--json", "--database", &world.url]).output().unwrap();
            serde_json::from_slice(&listed.stdout).unwrap()
        };
        let listed = list();
        let find = |name: &str| listed["items"].as_array().unwrap().iter().find(|each| each["name"] == name).unwrap().clone();
        assert_eq!(find("a")["calendar"], "a");
        let other = listed["items"].as_array().unwrap().iter().find(|each| each["name"].as_str().unwrap().starts_with("a-"));
        assert_eq!(other.unwrap()["next_slot_at"], "2030-01-01T00:00:00Z");
        assert_eq!(find("shop/report")["enabled"], false);
        assert_eq!(find("pg_cron-2")["owner"], "pg_cron");
        // A line that is removed leaves its schedule, until it is said to go.
        let two = write(folder.path(), "two", "0 1 * * * x\n0 2 * * * x\n");
        let line = ["crontab", &two, "--apply", "--owner", "two", "--prefix", "two-", "--database", &world.url];
        let made = import(&line).0["manifest"]["schedules"].as_object().unwrap().clone();
        write(folder.path(), "two", "0 2 * * * x\n");
        let kept = import(&line).0["manifest"]["schedules"].as_object().unwrap().clone();
        let kept = kept.keys().next().unwrap();
        assert!(made.len() == 2 && made[kept]["cron"] == "0 2 * * *", "{made:?} {kept}");
        let of = |each: &&Value| each["name"].as_str().unwrap().starts_with("two-x-");
        let count = || list()["items"].as_array().unwrap().iter().filter(of).count();
        assert_eq!(count(), 2);
        import(&[&line[..], &["--prune"]].concat());
        assert_eq!(count(), 1);
        // Another owner's import of the same names is refused, and says whose they are.
        let tab = folder.path().join("tab");
        let (code, _, err) = said(&run(&[
            "crontab", tab.to_str().unwrap(), "--owner", "others", "--apply", "--database", &world.url,
        ]));
        assert_ne!(code, Some(0));
        assert!(err.contains("crontab"), "{err}");
    }
}

const PG_CRON_CSV: &str = "jobid,schedule,command,nodename,nodeport,database,username,active,jobname\n\
    1,30 3 * * 6,\"DELETE FROM events\nWHERE \"\"at\"\" < now()\",localhost,5432,app,owner,t,old events\n\
    2,0 12 $ * *,VACUUM,db.internal,5433,app,owner,f,\n\
    3,15 seconds,SELECT 1,localhost,5432,app,owner,t,\n\
    4,@reboot,SELECT 2,localhost,5432,app,owner,t,boot\n\
    5,@daily,\\! touch here,localhost,5432,app,owner,t,shell\n";

#[test]
fn rows_of_pg_cron_become_statements_of_psql() {
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "job.csv", PG_CRON_CSV);
    let imported = import(&["pg_cron", &file]);
    assert_eq!(imported.names(), ["owner/old-events", "pg_cron-2", "pg_cron-3"]);
    let events = imported.schedule("owner/old-events");
    for (field, value) in
        [("cron", "30 3 * * 6"), ("timezone", "UTC"), ("missed", "skip"), ("overlap", "queue_one"), ("timeout", "none")]
    {
        assert_eq!(events[field], value, "{field}");
    }
    let argv = events["target"]["argv"].as_array().unwrap();
    assert_eq!(argv.last().unwrap(), "DELETE FROM events\nWHERE \"at\" < now()");
    let vacuum = imported.schedule("pg_cron-2");
    assert_eq!((&vacuum["cron"], &vacuum["paused"]), (&json!("0 12 L * *"), &json!(true)));
    let env = json!({ "PGHOST": "db.internal", "PGPORT": "5433", "PGDATABASE": "app", "PGUSER": "owner" });
    assert_eq!(vacuum["target"]["env"], env);
    assert_eq!(imported.schedule("pg_cron-3")["every"], "15s");
    imported.tells("left_out", 6, "@reboot");
    imported.tells("left_out", 7, "backslash");
    imported.tells("differs", 2, "every further slot waits");
    imported.tells("differs", 2, "localhost, seen from its own server");
    let json = write(folder.path(), "job.json", r#"[{"jobid": 7, "schedule": "@daily", "command": "SELECT 1"}]"#);
    assert_eq!(import(&["pg_cron", &json]).schedule("pg_cron-7")["cron"], "@daily");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_pg_cron_is_read_and_its_statements_run() {
    let database = Database::empty().await;
    let client = database.connect().await;
    // The table of pg_cron 1.6, without the extension, which a server must load when it starts.
    let made = "CREATE SCHEMA cron; CREATE TABLE cron.job (jobid bigserial PRIMARY KEY, schedule text NOT NULL, \
        command text NOT NULL, nodename text NOT NULL DEFAULT 'localhost', nodeport integer NOT NULL DEFAULT 5432, \
        database text NOT NULL DEFAULT current_database(), username text NOT NULL DEFAULT CURRENT_USER, \
        active boolean NOT NULL DEFAULT true, jobname text); \
        CREATE TABLE done (what text); \
        INSERT INTO cron.job (schedule, command, jobname) VALUES ('5 4 * * *', 'INSERT INTO done VALUES (''it''''s'')', 'mark'), \
        ('5 4 1 * 5', ' \\! echo from a shell', 'shell')";
    client.batch_execute(made).await.unwrap();
    let url = database.url();
    let imported = import(&["pg_cron", &url, "--tz", "Europe/Berlin"]);
    let named = |name: &str| imported.names().into_iter().find(|known| known.ends_with(name)).unwrap();
    let mark = imported.schedule(named("/mark"));
    assert_eq!((&mark["cron"], &mark["timezone"]), (&json!("5 4 * * *"), &json!("Europe/Berlin")));
    // The statement, as a worker would run it; the test's server is found by its own address.
    let argv: Vec<&str> =
        mark["target"]["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let ran = Command::new(argv[0]).args(["-d", &url]).args(&argv[1..]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let done: String = client.query_one("SELECT what FROM done", &[]).await.unwrap().get(0);
    assert_eq!(done, "it's");
    // psql looks at the first character only: with a space before it, it is a statement, and a wrong one.
    let argv = imported.schedule(named("/shell"))["target"]["argv"].as_array().unwrap();
    let argv: Vec<&str> = argv.iter().map(|word| word.as_str().unwrap()).collect();
    let ran = Command::new(argv[0]).args(["-d", &url]).args(&argv[1..]).output().unwrap();
    assert!(!ran.status.success() && ran.stdout.is_empty(), "{}", String::from_utf8_lossy(&ran.stdout));
    let name: String = client.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    let made = format!("ALTER DATABASE \"{name}\" SET cron.match_dom_and_dow = on");
    client.batch_execute(&made).await.unwrap();
    let imported = import(&["pg_cron", &url]);
    imported.tells("left_out", 2, "cron.match_dom_and_dow");
    assert_eq!(imported.names().len(), 1);
    client.batch_execute("DROP SCHEMA cron CASCADE").await.unwrap();
    let (code, _, err) = said(&run(&["pg_cron", &url]));
    assert_ne!(code, Some(0));
    assert!(err.contains("pg_cron is not installed"), "{err}");
}
