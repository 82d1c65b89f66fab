//! Handlers, from the job in a real store to their end: what they are given, and what they can do wrong.

use crate::node::{RunningNode, World};
use jiff::SignedDuration;
use punctual_core::execute::StopReason;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob, Run, Timeout};
use punctual_core::json::Json;
use punctual_core::records::{LogStream, Progress, RunRecords};
use punctual_core::retry::{Backoff, RetryPolicy};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// A node with one handler named `work`, and one named `neighbour` that does nothing.
struct Tasks {
    world: World,
    node: RunningNode,
}

impl Tasks {
    fn new(handler: impl punctual_core::execute::Executor + 'static) -> Self {
        let world = World::new();
        let neighbour = Handler::new(|_: Context, (): ()| async { Ok::<_, TaskError>(()) });
        let executors =
            Executors::default().with("task:work", Arc::new(handler)).with("task:neighbour", Arc::new(neighbour));
        let node = world.start(executors);
        Self { world, node }
    }

    async fn enqueue(&self, job: NewJob) -> JobId {
        self.world.store.enqueue_jobs(vec![job]).await.unwrap()[0]
    }

    async fn end(&self, id: JobId) -> Run {
        self.world.until_ended(id).await.run().cloned().unwrap()
    }

    async fn run(&self, input: &str) -> (JobId, Run) {
        let id = self.enqueue(job(input)).await;
        (id, self.end(id).await)
    }

    async fn neighbours(&self) {
        let neighbour = NewJob { input: Json::null(), ..NewJob::new(Target::task("neighbour")) };
        for id in self.world.store.enqueue_jobs(vec![neighbour; 10]).await.unwrap() {
            assert_eq!(self.end(id).await.outcome, Outcome::Completed);
        }
    }
}

/// A job that is tried up to three times, without a wait.
fn job(input: &str) -> NewJob {
    let base = SignedDuration::from_millis(1);
    let retry = RetryPolicy { backoff: Backoff::Fixed, base, ..RetryPolicy::default() };
    NewJob { input: Json::parse("input", input).unwrap(), retry, ..NewJob::new(Target::task("work")) }
}

#[derive(serde::Deserialize)]
struct Order {
    id: u32,
}

#[derive(serde::Serialize)]
struct Receipt {
    text: String,
}

#[tokio::test]
async fn d06_a_handler_has_typed_input_and_output_a_log_progress_and_files() {
    let tasks = Tasks::new(Handler::new(|ctx: Context, order: Order| async move {
        ctx.log(format!("order {}\nsecond line", order.id));
        ctx.warn("careful");
        ctx.progress(40, "nearly");
        ctx.artifact("receipt.txt", b"paid".to_vec()).await?;
        assert!(ctx.deadline().is_some_and(|at| at > ctx.started_at));
        Ok::<_, TaskError>(Receipt { text: format!("order {} of attempt {}\0", order.id, ctx.job.attempt) })
    }));
    let (id, run) = tasks.run(r#"{"id":7}"#).await;
    assert_eq!(run.output.unwrap().as_str(), r#"{"text":"order 7 of attempt 1\ufffd"}"#);
    let store = &tasks.world.store;
    let log: Vec<_> =
        store.run_log(id, 0, 10).await.unwrap().into_iter().map(|line| (line.stream, line.text)).collect();
    let line = |stream, text: &str| (stream, text.to_owned());
    assert_eq!(
        log,
        [
            line(LogStream::Stdout, "order 7"),
            line(LogStream::Stdout, "second line"),
            line(LogStream::Stderr, "careful"),
        ]
    );
    assert_eq!(store.run_progress(id).await.unwrap().unwrap().1, Progress::new(40, "nearly"));
    assert_eq!(store.artifact_contents(id, 1).await.unwrap().unwrap(), b"paid");
    let (_, run) = tasks.run(r#"{"id":"seven"}"#).await;
    assert_eq!((run.error_code, run.is_final), (Some(ErrorCode::TargetError), true), "the same input never fits");
    assert!(run.error.unwrap().contains("invalid type"));
    tasks.node.leave().await;
}

#[tokio::test]
async fn c04_a_step_is_done_once_for_the_whole_chain() {
    let charged = Arc::new(AtomicUsize::new(0));
    let (counted, tried) = (Arc::clone(&charged), Arc::new(AtomicUsize::new(0)));
    let attempts = Arc::clone(&tried);
    let tasks = Tasks::new(Handler::new(move |ctx: Context, _: Json| {
        let (charged, tried) = (Arc::clone(&counted), Arc::clone(&attempts));
        async move {
            let attempt = tried.fetch_add(1, Ordering::SeqCst) + 1;
            let charge = || async { Ok::<_, TaskError>(charged.fetch_add(1, Ordering::SeqCst) + 100) };
            let payment: usize = ctx.step("charge", charge).await?;
            let sent = || async move {
                if attempt == 1 { Err(TaskError::Retryable("no answer".to_owned())) } else { Ok(attempt) }
            };
            let sent: usize = ctx.step("send", sent).await?;
            if attempt == 2 {
                return Err(TaskError::Retryable("after both steps".to_owned()));
            }
            Ok((payment, sent, attempt))
        }
    }));
    let (first, run) = tasks.run("{}").await;
    assert_eq!((run.error.as_deref(), run.is_final), (Some("no answer"), false));
    let second = tasks.world.retry_of(first);
    tasks.end(second).await;
    let third = tasks.end(tasks.world.retry_of(second)).await;
    assert_eq!(third.output.unwrap().as_str(), "[100,2,3]", "what failed was done again, what succeeded was not");
    assert_eq!(charged.load(Ordering::SeqCst), 1);
    tasks.node.leave().await;
}

#[tokio::test]
async fn c04_a_step_name_counts_once_in_a_run() {
    let tasks = Tasks::new(Handler::new(|ctx: Context, _: Json| async move {
        let one = || async { Ok::<_, TaskError>(1) };
        let first: i32 = ctx.step("same", one).await?;
        let second: i32 = ctx.step("same", one).await?;
        Ok::<_, TaskError>(first + second)
    }));
    let (_, run) = tasks.run("{}").await;
    assert!(run.is_final && run.error.unwrap().contains("used twice"));
    tasks.node.leave().await;
}

#[tokio::test]
async fn c04_a_handler_says_how_it_goes_on() {
    let tasks = Tasks::new(Handler::new(|_: Context, how: String| async move {
        let hour = SignedDuration::from_hours(1);
        Err::<(), _>(match how.as_str() {
            "fatal" => TaskError::Fatal("no such customer".to_owned()),
            "later" => TaskError::RetryAfter(hour, "too many".to_owned()),
            "snooze" => TaskError::Snooze(hour, "not ready".to_owned()),
            _ => std::io::Error::other("broke").into(),
        })
    }));
    for (how, outcome, code, last) in [
        ("fatal", Outcome::Failed, Some(ErrorCode::TargetError), true),
        ("later", Outcome::Failed, Some(ErrorCode::TargetError), false),
        ("snooze", Outcome::Skipped, None, false),
        ("error", Outcome::Failed, Some(ErrorCode::TargetError), false),
    ] {
        let (id, run) = tasks.run(&format!("\"{how}\"")).await;
        assert_eq!((run.outcome, run.error_code, run.is_final), (outcome, code, last), "{how}");
        if matches!(how, "later" | "snooze") {
            let next = tasks.world.store.job(tasks.world.retry_of(id)).await.unwrap().unwrap();
            assert_eq!(next.state(), JobState::Scheduled, "{how}");
            assert!(next.job.spec.run_at.unwrap() >= run.finished_at + SignedDuration::from_hours(1), "{how}");
            assert_eq!(next.job.failures, u32::from(how == "later"));
        }
    }
    tasks.node.leave().await;
}

#[tokio::test]
async fn c07_a_handler_hears_that_it_is_to_stop() {
    let started = Arc::new(Semaphore::new(0));
    let begun = Arc::clone(&started);
    let tasks = Tasks::new(Handler::new(move |ctx: Context, _: Json| {
        let begun = Arc::clone(&begun);
        async move {
            begun.add_permits(1);
            assert_eq!(ctx.is_stopped(), None);
            let reason = ctx.stopped().await;
            assert_eq!(ctx.is_stopped(), Some(StopReason::Cancelled));
            ctx.log(format!("{reason:?}"));
            Err::<(), _>(TaskError::Retryable("stopped half way".to_owned()))
        }
    }));
    let id = tasks.enqueue(job("{}")).await;
    started.acquire().await.unwrap().forget();
    tasks.world.store.cancel_job(id).await.unwrap();
    let run = tasks.end(id).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
    assert_eq!(tasks.world.store.run_log(id, 0, 10).await.unwrap()[0].text, "Cancelled");
    tasks.node.leave().await;
}

#[tokio::test]
async fn c04_a_panic_is_a_failed_run_wherever_it_happens() {
    let tasks = Tasks::new(Handler::new(|ctx: Context, early: bool| {
        assert!(!early, "before the first await");
        async move {
            ctx.step("s", || async { Ok::<_, TaskError>(1) }).await?;
            let number: Option<u32> = ctx.job.slot_at.map(|_| 1);
            Ok::<_, TaskError>(number.expect("there is a number"))
        }
    }));
    for (input, words) in [("true", "before the first await"), ("false", "there is a number")] {
        let (_, run) = tasks.run(input).await;
        assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::TargetError)));
        assert!(run.error.unwrap().contains(words), "{words}");
    }
    tasks.neighbours().await;
    tasks.node.leave().await;
}

/// A node whose handler never gives its thread back, until somebody comes to the gate; and what tells that it is at it.
fn blocking_its_thread() -> (Tasks, Arc<Semaphore>, Arc<std::sync::Barrier>) {
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(std::sync::Barrier::new(2)));
    let (begun, blocked) = (Arc::clone(&started), Arc::clone(&gate));
    let tasks = Tasks::new(Handler::new(move |_: Context, _: Json| {
        let (begun, blocked) = (Arc::clone(&begun), Arc::clone(&blocked));
        async move {
            begun.add_permits(1);
            blocked.wait();
            Ok::<_, TaskError>(())
        }
    }));
    (tasks, started, gate)
}

/// A handler that never gives its thread back: its run ends all the same, and its neighbours go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c04_a_handler_that_blocks_its_thread_is_given_up() {
    let (tasks, started, gate) = blocking_its_thread();
    let limited = NewJob { timeout: Timeout::After(SignedDuration::from_millis(100)), ..job("{}") };
    let once = NewJob { retry: RetryPolicy::none(), ..limited };
    let id = tasks.enqueue(once).await;
    started.acquire().await.unwrap().forget();
    tasks.neighbours().await;
    assert_eq!(tasks.end(id).await.error_code, Some(ErrorCode::Timeout));
    tasks.neighbours().await;
    gate.wait();
    tasks.neighbours().await;
    assert_eq!(tasks.end(id).await.error_code, Some(ErrorCode::Timeout), "what it made of it later changes nothing");
    tasks.node.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c07_a_handler_that_blocks_its_thread_can_be_cancelled() {
    let (tasks, started, gate) = blocking_its_thread();
    let id = tasks.enqueue(job("{}")).await;
    started.acquire().await.unwrap().forget();
    tasks.world.store.cancel_job(id).await.unwrap();
    assert_eq!(tasks.end(id).await.outcome, Outcome::Cancelled);
    gate.wait();
    tasks.neighbours().await;
    tasks.node.leave().await;
}

/// The thread is lost, the node is not: it leaves, and says what became of the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c04_a_node_leaves_although_a_handler_blocks_its_thread() {
    let (Tasks { world, node }, started, gate) = blocking_its_thread();
    let once = NewJob { retry: RetryPolicy::none(), ..job("{}") };
    let id = world.store.enqueue_jobs(vec![once]).await.unwrap()[0];
    started.acquire().await.unwrap().forget();
    node.leave_at_once().await;
    let run = world.until_ended(id).await.run().cloned().unwrap();
    assert_eq!(run.error_code, Some(ErrorCode::Interrupted));
    gate.wait();
}

#[tokio::test]
async fn c04_a_blocking_handler_has_a_thread_of_its_own() {
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(std::sync::Barrier::new(2)));
    let (begun, blocked) = (Arc::clone(&started), Arc::clone(&gate));
    let tasks = Tasks::new(Handler::blocking(move |ctx: Context, number: u32| {
        begun.add_permits(1);
        blocked.wait();
        ctx.log("on my own thread");
        assert_ne!(number, 0, "nothing to count");
        Ok::<_, TaskError>(number + 1)
    }));
    for (input, code, output) in [("1", None, Some("2")), ("0", Some(ErrorCode::TargetError), None)] {
        let id = tasks.enqueue(NewJob { retry: RetryPolicy::none(), ..job(input) }).await;
        started.acquire().await.unwrap().forget();
        // On one thread for everything else, which goes on.
        tasks.neighbours().await;
        gate.wait();
        let run = tasks.end(id).await;
        assert_eq!((run.error_code, run.output.as_ref().map(Json::as_str)), (code, output));
    }
    tasks.node.leave().await;
}

#[tokio::test]
async fn c04_what_a_handler_returns_has_a_limit_and_its_memory_comes_back() {
    let tasks = Tasks::new(Handler::new(|_: Context, bytes: usize| async move {
        let mut ballast = vec![b'x'; 500 << 20];
        ballast[100 << 20] = b'y';
        ballast.truncate(bytes);
        Ok::<_, TaskError>(String::from_utf8(ballast)?)
    }));
    let before = resident_kib();
    let (_, run) = tasks.run("2000000").await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::OutputTooLarge)));
    assert!(run.is_final, "it would be as large the next time");
    tasks.neighbours().await;
    assert!(resident_kib() < before + 150_000, "{} kiB before, {} kiB after", before, resident_kib());
    let (_, run) = tasks.run("1048575").await;
    assert_eq!(run.error_code, Some(ErrorCode::OutputTooLarge), "its quotes count");
    let (_, run) = tasks.run("1048574").await;
    assert_eq!(run.outcome, Outcome::Completed);
    tasks.node.leave().await;
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
