//! `punctual demo`: real schedules, real commands, and a record that adds up.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("demo").args(args);
    command
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The events of a demo by their kind.
fn events(args: &[&str]) -> BTreeMap<String, Vec<Value>> {
    let mut events: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in stdout(&demo(args).output().unwrap()).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        events.entry(event["event"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    events
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

/// Waits for the first line, which names the folder.
fn first_line(child: &mut Child) -> (String, BufReader<std::process::ChildStdout>) {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (line, reader)
}

#[test]
fn a04_every_fired_slot_of_the_demo_has_one_job_with_a_run_or_still_open() {
    let events = events(&["--for", "3s", "--json"]);
    let slots = &events["slot"];
    let fired: Vec<_> = slots.iter().filter(|slot| slot["decision"] == "fired").collect();
    assert!(!fired.is_empty());
    let keys: BTreeSet<_> = slots.iter().map(|slot| (text(slot, "schedule"), text(slot, "slot_at"))).collect();
    assert_eq!(keys.len(), slots.len(), "no slot is decided twice");

    let ids = |events: &[Value]| events.iter().map(|it| text(it, "job_id").to_owned()).collect::<BTreeSet<_>>();
    let retries = events.get("retry").cloned().unwrap_or_default();
    let mut made: BTreeSet<String> = fired.iter().map(|slot| text(slot, "job_id").to_owned()).collect();
    assert_eq!(made.len(), fired.len(), "each fired slot has a job of its own");
    made.extend(ids(&retries));
    let ended = ids(&events["run"]);
    assert_eq!(ended.len(), events["run"].len(), "no job has two runs");
    assert!(ended.is_subset(&made));

    let summary = &events["summary"][0];
    assert_eq!(summary["open"], made.difference(&ended).count());
    assert_eq!(summary["slots_fired"], fired.len());
    assert_eq!(summary["retries"], retries.len());
    let completed = events["run"].iter().filter(|run| run["outcome"] == "completed").count();
    assert_eq!(summary["runs_completed"], completed);
    assert!(completed > 0);
}

#[test]
fn c04_the_demo_shows_a_failure_and_its_retry_and_skips_what_must_not_run() {
    let events = events(&["--for", "5s", "--json"]);
    let runs: BTreeMap<_, _> = events["run"].iter().map(|run| (text(run, "job_id"), run)).collect();
    let retry = &events["retry"][0];
    assert_eq!((text(retry, "schedule"), &retry["attempt"]), ("flaky", &2.into()));
    let failed = runs[text(retry, "retry_of")];
    assert_eq!(
        (text(failed, "outcome"), &failed["exit_code"], &failed["retried"]),
        ("failed", &3.into(), &true.into())
    );

    let schedules: BTreeSet<_> = events["slot"].iter().map(|slot| text(slot, "schedule")).collect();
    assert!(!schedules.contains("paused"));
    let skipped = events["slot"].iter().find(|slot| slot["decision"] == "skipped").unwrap();
    assert_eq!((text(skipped, "schedule"), text(skipped, "reason")), ("too-slow", "overlap"));
}

#[test]
fn the_demo_prints_plain_lines_into_a_pipe_and_removes_its_folder() {
    let text = stdout(&demo(&["--for", "1s"]).output().unwrap());
    let folder = text.strip_prefix("Data in ").and_then(|rest| rest.split_once(" (removed on exit)")).unwrap().0;
    assert!(!Path::new(folder).exists());
    assert!(!text.contains('\x1b'), "no colours and no cursor movements in a pipe");
    assert!(text.contains("Summary") && text.contains("punctual cron next"));
}

#[test]
fn the_demo_ends_quietly_when_its_reader_goes_away() {
    let mut child = demo(&["--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (line, reader) = first_line(&mut child);
    drop(reader);
    let status = child.wait().unwrap();
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((status.code(), complaint.as_str()), (Some(0), ""));
    let start: Value = serde_json::from_str(&line).unwrap();
    assert!(!Path::new(text(&start, "data")).exists());
}

#[cfg(unix)]
#[test]
fn c08_the_demo_stops_cleanly_when_it_is_interrupted() {
    let mut child = demo(&[]).stdout(Stdio::piped()).spawn().unwrap();
    let (line, mut reader) = first_line(&mut child);
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(rest.contains("Summary"));
    let folder = line.strip_prefix("Data in ").and_then(|rest| rest.split_once(" (removed")).unwrap().0;
    assert!(!Path::new(folder).exists());
}

#[test]
fn a_time_that_cannot_be_read_is_refused() {
    let output = demo(&["--for", "soon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--for"));
}
