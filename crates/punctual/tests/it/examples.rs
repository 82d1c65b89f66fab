//! The examples, run as a reader would run them.

use punctual_testkit::postgres::Database;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// An example that runs; it is ended with its test.
struct Example {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Example {
    /// Starts an example in a folder of its own.
    fn start(name: &str, folder: &tempfile::TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(built(name))
            .args(arguments)
            .env_remove("PUNCTUAL_DATABASE")
            .envs(variables.iter().copied())
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn terminate(&self, signal: &str) {
        let told = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    /// Everything it still says, and how it ends.
    fn rest(mut self) -> (String, ExitStatus) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Where the build puts examples: beside the folder that this test is in.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples").join(name)
}

fn ended_well(example: Example) -> String {
    let (rest, status) = example.rest();
    assert!(status.success(), "{status}: {rest}");
    rest
}

/// One request over a plain socket; the answer's body.
fn request(address: &str, head: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn d06_a_web_server_hands_work_to_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Example::start("embed_axum", &folder, &[], &[("LISTEN", "127.0.0.1:0")]);
    let line = server.line();
    let address = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
    let made = request(&address, "POST /welcome/ada");
    let id = made.split('"').nth(3).unwrap_or_else(|| panic!("{made}")).to_owned();
    assert_eq!(server.line(), "welcome, ada");
    assert!(request(&address, &format!("GET /jobs/{id}")).contains("state"));
    assert!(request(&address, "GET /jobs/00000000-0000-0000-0000-000000000000").contains("no job"));
    server.terminate("-TERM");
    assert_eq!(ended_well(server), "stopped\n");
    let mut again = Example::start("embed_axum", &folder, &[], &[("LISTEN", "127.0.0.1:0")]);
    let line = again.line();
    let address = line.strip_prefix("listening on http://").unwrap();
    assert!(request(address, &format!("GET /jobs/{id}")).contains("completed"), "the record survives a restart");
    again.terminate("-INT");
    assert_eq!(ended_well(again), "stopped\n");
}

#[tokio::test]
async fn d01_a_fleet_shares_the_work() {
    let (database, folder) = (Database::empty().await, tempfile::tempdir().unwrap());
    let url = database.url();
    let variables = [("PUNCTUAL_DATABASE", url.as_str()), ("WORKERS", "3"), ("JOBS", "60")];
    let fleet = Example::start("worker_fleet", &folder, &[], &variables);
    let said = tokio::task::spawn_blocking(|| ended_well(fleet)).await.unwrap();
    let sum: u64 = (0..60).map(|n| n * n).sum();
    assert!(said.contains(&format!("60 jobs, sum of squares {sum}")), "{said}");
    assert!(said.ends_with("all workers have left\n"), "{said}");
}

fn outbox_said(said: &str) {
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("rolled back: "), "{said}");
    assert!(lines[1].starts_with("committed: order "), "{said}");
    let order = lines[1].split(' ').nth(2).unwrap();
    assert_eq!(lines[2], format!("order {order} shipped"));
}

#[test]
fn c12_the_outbox_example_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    outbox_said(&ended_well(Example::start("transactional_outbox", &folder, &[], &[])));
}

#[tokio::test]
async fn c12_the_outbox_example_on_postgres() {
    let (database, folder) = (Database::empty().await, tempfile::tempdir().unwrap());
    let url = database.url();
    let outbox = Example::start("transactional_outbox", &folder, &[], &[("PUNCTUAL_DATABASE", &url)]);
    outbox_said(&tokio::task::spawn_blocking(|| ended_well(outbox)).await.unwrap());
}

#[test]
fn b05_a_week_of_nightly_reports_is_rehearsed_through_a_clock_change() {
    let folder = tempfile::tempdir().unwrap();
    let said = ended_well(Example::start("nightly_report", &folder, &["--rehearse"], &[]));
    let times: Vec<&str> = said.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(times.len(), 9, "{said}");
    assert_eq!(times[0], "2026-03-26T00:00:00Z", "the latest missed one is made up for");
    assert_eq!(times[1], "2026-03-26T01:00:00Z");
    assert_eq!(times[4], "2026-03-29T01:00:00Z", "two o'clock does not exist, so it is three");
    assert_eq!(times[5], "2026-03-30T00:00:00Z", "summer time");
}

#[test]
fn c08_the_nightly_report_waits_for_its_time_and_for_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Example::start("nightly_report", &folder, &[], &[]);
    assert!(report.line().starts_with("the next report is due at "));
    // Until the handler of the signal is there, the signal would end it the hard way.
    while !caught(report.child.id(), 2) {
        std::thread::yield_now();
    }
    report.terminate("-INT");
    assert_eq!(ended_well(report), "stopped\n");
}

/// Whether a process catches a signal, as the kernel says.
fn caught(process: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() & (1 << (signal - 1)) != 0
}
