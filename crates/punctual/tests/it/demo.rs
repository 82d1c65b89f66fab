//! `punctual demo`: a week of history, real work, an API that answers, and a record that adds up.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

fn punctual(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args);
    command
}

/// A demo on whatever port is free, because others may run beside it.
fn demo(args: &[&str]) -> Command {
    let mut command = punctual(&["demo", "--listen", "127.0.0.1:0"]);
    command.args(args);
    command
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

/// A demo that is under way.
struct Running {
    child: Child,
    reader: BufReader<ChildStdout>,
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let mut child = demo(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let reader = BufReader::new(child.stdout.take().unwrap());
        Running { child, reader }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line
    }

    /// The lines up to an empty one.
    fn paragraph(&mut self) -> String {
        std::iter::from_fn(|| Some(self.line()).filter(|line| !line.trim().is_empty())).collect()
    }

    fn interrupt(&self) {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// What it says until its end, which must be a good one.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        self.reader.read_to_string(&mut rest).unwrap();
        self.ends_well();
        rest
    }

    fn ends_well(&mut self) {
        let status = self.child.wait().unwrap();
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert_eq!((status.code(), complaint.as_str()), (Some(0), ""));
    }
}

/// The folder that the first line names.
fn folder(line: &str) -> &Path {
    let rest = line.split_once("demo data in ").unwrap().1;
    Path::new(rest.split_once(" (removed on exit)").unwrap().0)
}

#[test]
fn a04_what_the_demo_tells_adds_up() {
    let mut events: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in stdout(&demo(&["--for", "8s", "--json"]).output().unwrap()).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        events.entry(text(&event, "event").to_owned()).or_default().push(event);
    }
    let (slots, runs, summary) = (&events["slot"], &events["run"], &events["summary"][0]);
    let fired: Vec<_> = slots.iter().filter(|slot| slot["decision"] == "fired").collect();
    assert!(!fired.is_empty());
    let keys: BTreeSet<_> = slots.iter().map(|slot| (text(slot, "schedule"), text(slot, "slot_at"))).collect();
    assert_eq!(keys.len(), slots.len(), "no slot is decided twice");
    let made: BTreeSet<_> = fired.iter().map(|slot| text(slot, "job_id")).collect();
    assert_eq!(made.len(), fired.len(), "each fired slot has a job of its own");
    let ended: BTreeMap<_, _> = runs.iter().map(|run| (text(run, "job_id"), run)).collect();
    assert_eq!(ended.len(), runs.len(), "no job has two runs");
    assert!(
        u64::try_from(made.iter().filter(|job| !ended.contains_key(*job)).count()).unwrap() <= number(summary, "open")
    );

    assert_eq!(number(summary, "slots_fired"), u64::try_from(fired.len()).unwrap());
    assert_eq!(number(summary, "retries"), u64::try_from(events["retry"].len()).unwrap());
    let told = ["runs_completed", "runs_failed", "runs_interrupted"].map(|key| number(summary, key));
    assert_eq!(told.iter().sum::<u64>(), u64::try_from(runs.len()).unwrap());
    let [completed, ..] = told;
    assert!(completed >= 20, "{completed} runs completed in eight seconds");
    assert!(number(summary, "jobs_made") >= 40);

    // The group of failures goes on, and each is tried again.
    let failed = runs.iter().find(|run| run["outcome"] == "failed" && run["name"] == "invoice.sync").unwrap();
    assert!(text(failed, "error").contains("503") && failed["retried"] == true);
    assert!(events["retry"].iter().any(|retry| retry["retry_of"] == failed["job_id"]));
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap()
}

#[test]
fn the_demo_serves_the_api_and_every_command_it_names_works() {
    let mut demo = Running::start(&["--headless"]);
    let opening = demo.paragraph();
    let data = folder(&opening).to_owned();
    let told: Vec<_> =
        opening.lines().filter_map(|line| line.split_once(" punctual ")).map(|(_, words)| words).collect();
    assert_eq!(told.len(), 3, "{opening}");
    for words in told {
        let words: Vec<_> = words.split_whitespace().collect();
        assert!(!stdout(&punctual(&words).output().unwrap()).is_empty(), "{words:?}");
    }
    let data_arg = data.to_str().unwrap();
    let failed = stdout(&punctual(&["job", "ls", "--state", "failed", "--json", "--data", data_arg]).output().unwrap());
    assert!(failed.contains("503 Service Unavailable"));
    let why = opening.lines().find_map(|line| line.split_once(" punctual why ")).unwrap().1;
    let words: Vec<_> = ["why"].into_iter().chain(why.split_whitespace()).collect();
    assert!(stdout(&punctual(&words).output().unwrap()).contains("depends on"));
    demo.interrupt();
    assert_eq!(demo.rest(), "", "nothing is shown");
    assert!(!data.exists());
}

#[test]
fn c12_a_headless_demo_tells_programs_its_address_and_token_in_one_line() {
    let mut demo = Running::start(&["--headless", "--json", "--seed", "7"]);
    let start: Value = serde_json::from_str(&demo.line()).unwrap();
    assert_eq!((text(&start, "event"), start["demo_data"].as_bool(), number(&start, "seed")), ("start", Some(true), 7));
    assert_eq!((number(&start, "schedules"), number(&start, "queues"), number(&start, "nodes")), (13, 6, 2));
    let url = text(&start, "url");
    assert_eq!(text(&start, "sign_in"), format!("{url}/#token={}", text(&start, "token")));
    let page = get(url, "/api/v1/schedules", Some(text(&start, "token")));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("nightly-backup"), "{page}");
    assert!(get(url, "/api/v1/schedules", None).starts_with("HTTP/1.1 401"));
    assert!(get(url, "/docs", None).starts_with("HTTP/1.1 200"));
    demo.interrupt();
    assert_eq!(demo.rest(), "", "one line is all there is");
    assert!(!Path::new(text(&start, "data")).exists());
}

/// One call, answered in full.
fn get(url: &str, path: &str, token: Option<&str>) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[cfg(unix)]
#[test]
fn c08_the_demo_prints_plain_lines_into_a_pipe_and_stops_cleanly_when_it_is_interrupted() {
    let mut demo = Running::start(&[]);
    let opening = demo.paragraph();
    let events: String = (0..5).map(|_| demo.line()).collect();
    demo.interrupt();
    let rest = demo.rest();
    assert!(rest.contains("Summary") && rest.contains("punctual serve"));
    let all = [opening.as_str(), &events, &rest].concat();
    assert!(!all.contains('\x1b'), "no colours and no cursor movements in a pipe");
    assert!(!folder(&opening).exists());
}

#[cfg(unix)]
#[test]
fn c08_a_demo_that_is_interrupted_before_it_is_ready_leaves_nothing_behind() {
    let mut demo = Running::start(&[]);
    let line = demo.line();
    demo.interrupt();
    assert_eq!(demo.rest(), "");
    assert!(!folder(&line).exists());
}

#[test]
fn the_demo_ends_quietly_when_its_reader_goes_away() {
    let mut demo = Running::start(&["--json"]);
    let start: Value = serde_json::from_str(&demo.line()).unwrap();
    let Running { child, reader } = demo;
    drop(reader);
    let nobody = BufReader::new(Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.take().unwrap());
    Running { child, reader: nobody }.ends_well();
    assert!(!Path::new(text(&start, "data")).exists());
}

#[test]
fn an_address_that_cannot_be_used_is_refused_before_anything_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (listen, code, words) in [(address.as_str(), 1, "choose another"), ("0.0.0.0:0", 2, "127.0.0.1")] {
        let output = punctual(&["demo", "--listen", listen]).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{complaint}");
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn a_time_that_cannot_be_read_is_refused() {
    let output = demo(&["--for", "soon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--for"));
}
