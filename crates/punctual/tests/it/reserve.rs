//! Queues that are held from the command line, by real processes, and serial keys that a failure holds.

use crate::process::{Ear, Setup, Worker};
use crate::serve::punctual;
use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Output, Stdio};

/// A process that holds a queue while its command runs.
struct Holder {
    child: Child,
    said: BufReader<ChildStdout>,
    /// The command's own process.
    pid: u32,
}

impl Holder {
    /// Comes back when the queue is held and the command runs, until its standard input is closed.
    fn start(world: &World, queue: &str, held_for: &str) -> Self {
        let script = "echo $$; read -r line; exit 7";
        let mut child = reserve(world, queue, &["--for", held_for, "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let pid = line.trim().parse().expect("the command says who it is");
        Self { child, said, pid }
    }

    /// `kill -9`, and its command with it.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // It may have ended by itself, because nobody is left who could write to it.
        let _ended_already = std::process::Command::new("kill").args(["-KILL", &self.pid.to_string()]).status();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn reserve(world: &World, queue: &str, more: &[&str]) -> std::process::Command {
    punctual(&[&["queue", "reserve", queue, "--database", &world.url], more].concat())
}

fn run(world: &World, words: &[&str]) -> Output {
    let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let (before, behind) = words.split_at(at);
    punctual(&[before, &["--database", &world.url], behind].concat()).output().unwrap()
}

async fn order(world: &World, queue: &str) -> Vec<JobId> {
    let queued = world.store.queued_jobs(queue, None, 100).await.unwrap();
    queued.into_iter().map(|job| job.place.job_id).collect()
}

on_both_stores! {
    async fn c11_a_killed_holder_blocks_its_queue_no_longer_than_its_expiry(world: &World) {
        let spec = |queue: &str, priority| NewJob { queue: queue.to_owned(), priority, ..NewJob::new(world.target()) };
        let jobs = [0, 5, 0, 9, 5, 0].map(|priority| spec("held", priority));
        world.store.enqueue_jobs(jobs.to_vec()).await.unwrap();
        let before = order(world, "held").await;
        let mut holder = Holder::start(world, "held", "6s");
        let first = world.store.reservation("held").await.unwrap().unwrap();
        let ear = Ear::new();
        let _worker = Worker::start_as(&world.url, &Setup { concurrency: 1, ..Setup::default() }, &ear);
        // The worker works, and the hold is renewed meanwhile.
        world.store.enqueue_jobs(vec![spec("free", 0)]).await.unwrap();
        world.until("SELECT count(*) FROM {runs} WHERE outcome = 'completed'", |done| done == 1).await;
        let renewed = "SELECT count(*) FROM {reservations} WHERE expires_at > ";
        let literal = if world.url.starts_with("sqlite") {
            first.expires_at.as_microsecond().to_string()
        } else {
            format!("'{}'", first.expires_at)
        };
        world.until(&format!("{renewed}{literal}"), |renewed| renewed == 1).await;
        assert_eq!(order(world, "held").await, before, "nothing was handed out, and nobody moved");
        holder.kill();
        let held = world.store.reservation("held").await.unwrap().expect("it is held until it runs out");
        world.until("SELECT count(*) FROM {runs}", |ended| ended == 7).await;
        let mut started = Vec::new();
        for id in before {
            started.push(world.store.run(id).await.unwrap().unwrap().started_at.unwrap());
        }
        assert!(started.is_sorted(), "the order after it is the order before it: {started:?}");
        assert!(started[0] >= held.expires_at, "{} before {}", started[0], held.expires_at);
        let late = started[0].duration_since(held.expires_at);
        assert!(late < SignedDuration::from_secs(20), "{late:?} after its expiry");
        eprintln!("the first job started {late:?} after the hold had run out");
    }

    async fn c11_a_queue_is_held_while_a_command_runs_and_given_back_after_it(world: &World) {
        let mut holder = Holder::start(world, "q", "1m");
        let refused = reserve(world, "q", &[]).output().unwrap();
        assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("is reserved by"));
        let late = reserve(world, "q", &["--wait", "200ms"]).output().unwrap();
        assert_eq!(late.status.code(), Some(4), "it waited, and it was not enough");
        let next = reserve(world, "q", &["--wait", "1m", "--", "echo", "mine"]);
        let next = { next }.stdout(Stdio::piped()).spawn().unwrap();
        drop(holder.child.stdin.take());
        assert_eq!(holder.child.wait().unwrap().code(), Some(7), "the command's own exit code");
        let next = next.wait_with_output().unwrap();
        assert_eq!((next.status.code(), next.stdout.as_slice()), (Some(0), b"mine\n".as_slice()));
        assert_eq!(world.store.reservation("q").await.unwrap(), None, "both gave it back");
        let mut rest = String::new();
        holder.said.read_line(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing but the command's own words");
    }

    async fn a06_a_failure_holds_its_key_until_somebody_releases_it(world: &World) {
        let strict = ["--serial-key", "ledger", "--serial-on-failure", "hold"];
        let failed = run(world, &[&["run"], strict.as_slice(), &["--", "sh", "-c", "exit 3"]].concat());
        assert_eq!(failed.status.code(), Some(3), "{}", String::from_utf8_lossy(&failed.stderr));
        let added = run(world, &[&["job", "add", "--queue", "run"], strict.as_slice(), &["--", "true"]].concat());
        let job = String::from_utf8(added.stdout).unwrap().trim().to_owned();
        let shown: Value = serde_json::from_slice(&run(world, &["job", "show", &job, "--json"]).stdout).unwrap();
        assert_eq!(shown["ready"], false);
        assert!(shown["waits_for"].as_str().unwrap().contains("the serial key `ledger` is held since"), "{shown:#}");
        let listed: Value = serde_json::from_slice(&run(world, &["queue", "serial", "ls", "--json"]).stdout).unwrap();
        assert_eq!((&listed["items"][0]["key"], &listed["items"][0]["waiting"]["count"]), (&"ledger".into(), &1.into()));
        let released = run(world, &["queue", "serial", "release", "ledger"]);
        assert_eq!(released.status.code(), Some(0), "{}", String::from_utf8_lossy(&released.stderr));
        let shown: Value = serde_json::from_slice(&run(world, &["job", "show", &job, "--json"]).stdout).unwrap();
        assert_eq!(shown["ready"], true);
        let again = run(world, &["queue", "serial", "release", "ledger"]);
        assert_eq!(again.status.code(), Some(3), "it is not held any more");
        // A retry is followed to its end without looking through lists.
        let flaky = "test -e \"$MARK\" && exit 0; touch \"$MARK\"; exit 1";
        let mark = tempfile::tempdir().unwrap();
        let flaky = flaky.replace("$MARK", mark.path().join("mark").to_str().unwrap());
        let retried = run(world, &["run", "--attempts", "2", "--", "sh", "-c", &flaky]);
        assert_eq!(retried.status.code(), Some(0), "{}", String::from_utf8_lossy(&retried.stderr));
    }
}
