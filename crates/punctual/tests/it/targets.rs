//! What jobs do for real, by real workers on both stores: what they leave behind, and what they must not.

use crate::process::{Ear, Worker};
use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::{NewJob, Run, Timeout};
use punctual_core::records::LogStream;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::target::{Command, Target};
use std::fs;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(20);

/// A job that is tried once.
fn script(text: &str) -> NewJob {
    let command = Command { argv: vec![text.to_owned()], shell: true, ..Command::default() };
    NewJob { retry: RetryPolicy::none(), ..NewJob::new(Target::from(command)) }
}

async fn enqueue(world: &World, job: NewJob) -> JobId {
    world.store.enqueue_jobs(vec![job]).await.unwrap()[0]
}

async fn until_ended(world: &World, id: JobId) -> Run {
    loop {
        if let Some(run) = world.store.run(id).await.unwrap() {
            return run;
        }
        tokio::time::sleep(MOMENT).await;
    }
}

async fn said(world: &World, id: JobId, stream: LogStream) -> Vec<String> {
    let log = world.store.run_log(id, 0, 1000).await.unwrap();
    log.into_iter().filter(|line| line.stream == stream).map(|line| line.text).collect()
}

async fn until_said(world: &World, id: JobId, text: &str) {
    while !said(world, id, LogStream::Stdout).await.iter().any(|line| line == text) {
        tokio::time::sleep(MOMENT).await;
    }
}

/// A time to sleep that no other process sleeps.
fn unlike_any_other() -> String {
    format!("80000.{:09}", uuid::Uuid::new_v4().as_u128() % 1_000_000_000)
}

/// How many processes have a text in their command line.
fn with_argument(text: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(text.len()).any(|window| window == text.as_bytes())).count()
}

async fn until_gone(text: &str) {
    while with_argument(text) > 0 {
        tokio::time::sleep(MOMENT).await;
    }
}

/// Three that sleep: the command, one of another session, and one of an empty environment without a parent.
fn sleepers(time: &str) -> NewJob {
    let text = format!(
        "setsid sleep {time} & (env -i setsid sh -c 'trap \"\" TERM; setsid sleep {time} &' &); \
         while [ $(pgrep -c -x -f 'sleep {time}') -lt 2 ]; do :; done; pwd; echo ready; exec sleep {time}"
    );
    script(&text)
}

on_both_stores! {
    /// The worker dies without a word; its guard sees to it that nothing of the command is left.
    async fn c13_killing_the_worker_leaves_no_process_and_no_folder(world: &World) {
        let mut worker = Worker::start(world, &Ear::new());
        let time = unlike_any_other();
        let id = enqueue(world, sleepers(&time)).await;
        until_said(world, id, "ready").await;
        let folder = said(world, id, LogStream::Stdout).await[0].clone();
        assert!(with_argument(&time) >= 3 && fs::exists(&folder).unwrap());
        worker.kill();
        until_gone(&time).await;
        while fs::exists(&folder).unwrap() {
            tokio::time::sleep(MOMENT).await;
        }
        let _next = Worker::start(world, &Ear::new());
        let run = until_ended(world, id).await;
        assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::NodeLost)));
        assert_eq!(said(world, id, LogStream::Stdout).await[1], "ready", "what it said before is kept");
    }

    /// A worker that is stopped cannot end its commands before another one takes over; their guards do.
    async fn c13_a_worker_that_is_stopped_loses_its_commands(world: &World) {
        let worker = Worker::start(world, &Ear::new());
        let time = unlike_any_other();
        let id = enqueue(world, sleepers(&time)).await;
        until_said(world, id, "ready").await;
        worker.stop();
        // One that is stopped in the middle of a write holds up everybody on SQLite.
        while !world.nobody_writes().await {
            worker.signal("-CONT");
            worker.stop();
        }
        until_gone(&time).await;
        let _next = Worker::start(world, &Ear::new());
        assert_eq!(until_ended(world, id).await.error_code, Some(ErrorCode::NodeLost));
        worker.signal("-CONT");
    }

    /// The poison set where the store matters: what is no text, what is too much, what does not stop.
    async fn c13_what_a_command_does_wrong_is_recorded_and_nothing_else_suffers(world: &World) {
        let _worker = Worker::start(world, &Ear::new());
        let time = unlike_any_other();
        let stubborn = script(&format!("trap '' TERM; sleep {time} & while :; do sleep {time}; done"));
        let limit = Timeout::After(SignedDuration::from_millis(500));
        let stubborn = enqueue(world, NewJob { timeout: limit, ..stubborn }).await;
        let odd = enqueue(world, script(r"printf 'a\377b\000c\n'; kill -ABRT $$")).await;
        let loud = enqueue(world, script("yes | head -c 30000000; exec >&-; exit 5")).await;
        let run = until_ended(world, odd).await;
        assert_eq!((run.error_code, run.exit_code), (Some(ErrorCode::TargetError), None));
        assert!(run.error.unwrap().contains("SIGABRT"));
        assert_eq!(said(world, odd, LogStream::Stdout).await, ["a\u{fffd}b\u{fffd}c"]);
        let run = until_ended(world, loud).await;
        assert_eq!((run.error_code, run.exit_code), (Some(ErrorCode::TargetError), Some(5)));
        let last = world.store.run_log(loud, 127_000, 1000).await.unwrap().pop().unwrap();
        assert!(last.stream == LogStream::System && last.text.contains("not kept"), "{last:?}");
        assert_eq!(until_ended(world, stubborn).await.error_code, Some(ErrorCode::Timeout));
        assert_eq!(with_argument(&time), 0);
        assert!(until_ended(world, odd).await.usage.is_some());
    }
}
