//! `punctual health`: what those who watch over containers are told.

use crate::serve::{Server, punctual};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// The exit code and what was said.
fn health(args: &[&str]) -> (Option<i32>, String) {
    let output = punctual(&[&["health"], args].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).trim().to_owned())
}

/// A worker that is killed when it is dropped.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path, file: &str) -> Self {
        let database = format!("sqlite:{}", folder.join("punctual.db").display());
        let mut command = punctual(&["worker", "--database", &database, "--health-file", file]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready: "), "{ready}");
        Self(child)
    }

    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

#[test]
fn a23_a_worker_says_that_it_is_well_until_it_hangs_or_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("health");
    let path = file.to_str().unwrap();
    let (code, words) = health(&["--health-file", path]);
    assert!(code == Some(1) && words.contains("is it started with it?"), "{words}");

    let mut worker = Worker::start(folder.path(), path);
    // Its own line may be a moment ahead of the file.
    while health(&["--health-file", path, "--within", "1h"]) != (Some(0), "ready".to_owned()) {}
    assert_eq!(health(&["--health-file", path, "--within", "1h", "--live"]).0, Some(0));

    worker.signal("-STOP");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    // What it was about to write when it was stopped may still be on its way into the file.
    while health(&["--health-file", path]).0 == Some(0) {
        File::options().write(true).open(&file).unwrap().set_modified(hour_ago).unwrap();
    }
    let (code, words) = health(&["--health-file", path, "--live"]);
    assert!(code == Some(1) && words.contains("it hangs, or was killed"), "{words}");
    worker.signal("-CONT");
    while health(&["--health-file", path]).0 != Some(0) {}

    worker.signal("-TERM");
    assert_eq!(worker.0.wait().unwrap().code(), Some(0));
    assert!(!file.exists(), "it takes its word with it");
}

#[test]
fn a_file_that_says_something_else_is_no_sign_of_health() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("health");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "starting\n").unwrap();
    let (code, words) = health(&["--health-file", path, "--within", "1h"]);
    assert!(code == Some(1) && words.contains("starting"), "{words}");
    assert_eq!(health(&["--health-file", path, "--within", "1h", "--live"]), (Some(0), "starting".to_owned()));
    std::fs::write(&file, "everything is fine").unwrap();
    let (code, words) = health(&["--health-file", path]);
    assert!(code == Some(1) && words.contains("no health file"), "{words}");
    let nowhere = folder.path().join("no/such/folder");
    let database = format!("sqlite:{}", folder.path().join("punctual.db").display());
    let args = ["worker", "--database", &database, "--health-file", nowhere.to_str().unwrap()];
    let refused = punctual(&args).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot write the health file"));
    assert_eq!(refused.status.code(), Some(1));
}

/// As in a container: it listens on all addresses, and is asked on the one that leads back.
#[test]
fn a23_a_server_is_asked_whether_it_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let (code, words) = health(&["--data", data]);
    assert!(code == Some(6) && words.contains("no server runs"), "{words}");
    let args = ["serve", "--data", data, "--listen", "0.0.0.0:0", "--allow-plain-http"];
    let server = Server::start(&mut punctual(&args));
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    assert_eq!(health(&["--data", data]), (Some(0), "ready".to_owned()));
    assert_eq!(health(&["--data", data, "--live"]), (Some(0), "lives".to_owned()));
    drop(server);
    assert_eq!(health(&["--data", data]).0, Some(6));
}
