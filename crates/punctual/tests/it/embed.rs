//! Punctual inside a program: tasks, schedules, jobs and results, on both stores and across nodes.

use crate::world::{World, on_both_stores};
use punctual::{
    Backoff, Builder, Cancelled, Context, Error, ErrorCode, Invalid, JobKeyMode, JobState, NodeEvent, Others, Punctual,
    RetryPolicy, SignedDuration, StoreError, Target, TaskError, Timestamp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A node that runs until it is told to stop.
struct Node {
    stop: oneshot::Sender<()>,
    run: JoinHandle<punctual::Result<()>>,
}

impl Node {
    fn start(punctual: &Punctual) -> Self {
        let (stop, stopped) = oneshot::channel();
        let punctual = punctual.clone();
        Self { stop, run: tokio::spawn(async move { punctual.run_until(async { drop(stopped.await) }).await }) }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.run.await.unwrap().unwrap();
    }
}

fn quick(world: &World) -> Builder {
    Punctual::builder(&world.url).name("test").poll(Duration::from_secs(600))
}

fn at_once(max_attempts: u32) -> RetryPolicy {
    let base = SignedDuration::from_millis(1);
    RetryPolicy { max_attempts, backoff: Backoff::Fixed, base, ..RetryPolicy::default() }
}

fn invalid<T: std::fmt::Debug>(result: punctual::Result<T>) -> Invalid {
    match result {
        Err(Error::Invalid(invalid)) => invalid,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

on_both_stores! {
    /// d06
    async fn d06_a_result_is_waited_for_across_nodes(world: &World) {
        let worker = quick(world).open().await.unwrap();
        worker.task("double", |_: Context, n: u64| async move { Ok::<_, TaskError>(n * 2) });
        let node = Node::start(&worker);
        // Another process, as far as the store is concerned, and one that runs nothing.
        let client = Punctual::open(&world.url).await.unwrap();
        assert_eq!(client.enqueue("double", &21).send_and_wait::<u64>().await.unwrap(), 42);
        let many = client.enqueue_many("double", 0..10_u64).send().await.unwrap();
        for (n, handle) in many.iter().enumerate() {
            assert_eq!(handle.wait::<u64>().await.unwrap(), 2 * n as u64);
        }
        assert!(matches!(many[0].wait::<String>().await, Err(Error::Output { .. })));
        node.stop().await;
    }

    /// c04
    async fn c04_waiting_follows_retries_to_the_end(world: &World) {
        let punctual = quick(world).open().await.unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        punctual.task("third_time", move |context: Context, (): ()| {
            let calls = Arc::clone(&counted);
            async move {
                calls.fetch_add(1, Ordering::SeqCst);
                if context.job.attempt < 3 { Err(TaskError::Retryable("not yet".to_owned())) } else { Ok("at last") }
            }
        });
        punctual.task("never", |_: Context, (): ()| async { Err::<(), _>(TaskError::Fatal("broken".to_owned())) });
        punctual.task("panics", |_: Context, (): ()| async { if true { panic!("oh no") } else { Ok::<(), TaskError>(()) } });
        let node = Node::start(&punctual);
        let job = punctual.enqueue("third_time", &()).retry(at_once(5)).send().await.unwrap();
        assert_eq!(job.wait::<String>().await.unwrap(), "at last");
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        let (last, run) = job.wait_for_end().await.unwrap();
        assert!(last != job.id() && run.is_final);
        match punctual.enqueue("never", &()).retry(at_once(5)).send_and_wait::<()>().await {
            Err(Error::Failed { code: ErrorCode::TargetError, error, .. }) => assert_eq!(error, "broken"),
            other => panic!("expected a failure, got {other:?}"),
        }
        match punctual.enqueue("panics", &()).retry(RetryPolicy::none()).send_and_wait::<()>().await {
            Err(Error::Failed { error, .. }) => assert!(error.contains("oh no"), "{error}"),
            other => panic!("expected a failure, got {other:?}"),
        }
        match punctual.enqueue("third_time", "no unit").retry(at_once(5)).send_and_wait::<()>().await {
            Err(Error::Failed { error, .. }) => assert!(error.contains("input"), "{error}"),
            other => panic!("expected a failure, got {other:?}"),
        }
        node.stop().await;
    }

    /// d07
    async fn d07_a_schedule_in_code_is_saved_at_every_start(world: &World) {
        let punctual = Punctual::open(&world.url).await.unwrap();
        let declare = |minutes: u64| {
            let schedule = punctual.schedule("tick").every(Duration::from_secs(60 * minutes));
            schedule.task("tick").input(&minutes).unwrap().description("ticks").label("team", "time").save()
        };
        let first = declare(5).await.unwrap();
        assert_eq!(declare(5).await.unwrap(), first, "nothing has changed");
        let edited = declare(7).await.unwrap();
        assert_eq!((edited.id, edited.version), (first.id, 2));
        assert_eq!(edited.definition.source, punctual_core::schedule::Source::Code);
        assert_eq!(punctual.schedule_state("tick").await.unwrap(), Some(edited));
        let both = tokio::join!(declare(9), declare(9));
        assert!(both.0.is_ok() && both.1.is_ok(), "two processes of one program start at once");
    }

    /// d07
    async fn d07_what_is_declared_no_longer_goes_only_when_asked(world: &World) {
        let mine = Punctual::builder(&world.url).owner("mine").open().await.unwrap();
        let other = Punctual::builder(&world.url).owner("other").open().await.unwrap();
        let named = |punctual: &Punctual, name: &str| punctual.schedule(name).cron("@daily").unwrap().task("t");
        named(&other, "theirs").save().await.unwrap();
        mine.declare([named(&mine, "a"), named(&mine, "b")], Others::Keep).await.unwrap();
        mine.declare([named(&mine, "b")], Others::Keep).await.unwrap();
        assert!(mine.schedule_state("a").await.unwrap().is_some());
        mine.declare([named(&mine, "b")], Others::Remove).await.unwrap();
        assert!(mine.schedule_state("a").await.unwrap().is_none());
        assert!(mine.schedule_state("theirs").await.unwrap().is_some());
        assert!(named(&mine, "theirs").save().await.is_err());
    }

    /// d07
    async fn d07_somebody_elses_schedule_is_not_changed(world: &World) {
        let punctual = Punctual::open(&world.url).await.unwrap();
        let timing = punctual_core::timing::TimingSpec::cron("@daily", "UTC");
        let name = punctual_core::name::Name::new("theirs").unwrap();
        let theirs = punctual_core::schedule::ScheduleDefinition::new(name, timing, Target::task("x"));
        let theirs = world.store.create_schedule(theirs).await.unwrap();
        let refused = punctual.schedule("theirs").cron("@hourly").unwrap().task("y").save().await;
        assert!(matches!(refused, Err(Error::Store(StoreError::NameTaken { .. }) | Error::Invalid(_))), "{refused:?}");
        assert_eq!(punctual.schedule_state("theirs").await.unwrap(), Some(theirs));
    }

    /// d06
    async fn d06_a_schedule_in_code_fires_and_its_task_runs(world: &World) {
        let punctual = quick(world).open().await.unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        punctual.task("tick", move |context: Context, words: String| {
            let tell = tell.clone();
            async move {
                tell.send((context.job.slot_at, words)).map_err(|error| TaskError::Retryable(error.to_string()))
            }
        });
        let tick = punctual.schedule("tick").every(Duration::from_secs(1)).task("tick").input("tock").unwrap();
        let schedule = tick.save().await.unwrap();
        let node = Node::start(&punctual);
        let (slot_at, words) = told.recv().await.unwrap();
        assert_eq!((slot_at, words.as_str()), (schedule.state.next_slot_at, "tock"));
        node.stop().await;
    }

    /// c18
    async fn c18_what_is_asked_for_is_what_the_job_is(world: &World) {
        let punctual = Punctual::open(&world.url).await.unwrap();
        let at: Timestamp = "2999-01-01T00:00:00Z".parse().unwrap();
        let job = punctual
            .enqueue("t", &[1, 2])
            .run_at(at)
            .priority(-3)
            .queue("q")
            .job_key_mode("k", JobKeyMode::PreserveRunAt)
            .serial_key("s")
            .retry(at_once(7))
            .timeout(Duration::from_secs(9))
            .tags(["a", "b"])
            .trace_context("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            .send()
            .await
            .unwrap();
        let view = job.view().await.unwrap();
        let spec = &view.job.spec;
        assert_eq!((view.state(), spec.run_at, spec.priority), (JobState::Scheduled, Some(at), -3));
        assert_eq!((spec.queue.as_str(), spec.serial_key.as_deref()), ("q", Some("s")));
        assert_eq!((spec.retry.clone(), spec.tags.len(), spec.input.as_str()), (at_once(7), 2, "[1,2]"));
        assert_eq!(spec.job_key.as_ref().map(|key| key.mode), Some(JobKeyMode::PreserveRunAt));
        assert_eq!(job.cancel().await.unwrap(), Cancelled::BeforeStart);
        assert!(matches!(job.wait::<()>().await, Err(Error::Stopped { code: ErrorCode::Cancelled, .. })));
    }

    /// c12
    async fn c12_what_cannot_work_is_refused_with_a_remedy(world: &World) {
        let punctual = Punctual::open(&world.url).await.unwrap();
        assert_eq!(invalid(punctual.enqueue("t", &"a\0b").send().await).field, "input");
        assert_eq!(invalid(punctual.enqueue("", &1).send().await).field, "target.name");
        assert_eq!(invalid(punctual.enqueue("t", &1).queue("").send().await).field, "queue");
        assert_eq!(invalid(punctual.schedule("s").cron("* * *")).field, "cron");
        assert_eq!(invalid(punctual.schedule("s").cron("@daily").unwrap().timezone("Mars/Olympus")).field, "timezone");
        assert_eq!(invalid(punctual.schedule("s").task("t").save().await).field, "cron");
        assert_eq!(invalid(punctual.schedule("s").every(Duration::from_secs(5)).save().await).field, "target");
        assert_eq!(invalid(punctual.schedule("s").every(Duration::ZERO).task("t").save().await).field, "every");
        let batch = punctual.enqueue_many("t", ["fine", "a\0b"]).send().await;
        assert!(invalid(batch).remedy.is_some());
        let nobody = punctual.handle(punctual_core::id::JobId(uuid::Uuid::nil()));
        assert!(matches!(nobody.wait::<()>().await, Err(Error::NoSuchJob(_))));
        assert_eq!(world.number("SELECT count(*) FROM {jobs}").await, 0);
        let hasty = Punctual::builder(&world.url).lease(Duration::from_secs(2), Duration::from_secs(1)).open().await;
        assert_eq!(invalid(hasty).field, "lease");
    }

    /// e06
    async fn e06_a_schedule_waits_until_its_program_is_there(world: &World) {
        let (ready, mut is_ready) = mpsc::unbounded_channel();
        let other = quick(world)
            .on_event(move |event| {
                if *event == NodeEvent::Ready {
                    let _gone = ready.send(());
                }
            })
            .open()
            .await
            .unwrap();
        other.schedule("lonely").every(Duration::from_secs(3600)).task("lonely").save().await.unwrap();
        let node = Node::start(&other);
        is_ready.recv().await.unwrap();
        let mut changes = world.store.changes();
        let marked = async |yes: bool| {
            while other.schedule_state("lonely").await.unwrap().unwrap().state.problem.is_some() != yes {
                tokio::select! {
                    () = changes.next() => {}
                    () = tokio::time::sleep(Duration::from_millis(10)) => {}
                }
            }
        };
        let mut marked = marked;
        marked(true).await;
        let program = Punctual::open(&world.url).await.unwrap();
        program.task("lonely", |_: Context, (): ()| async { Ok::<_, TaskError>(()) });
        let served = Node::start(&program);
        marked(false).await;
        served.stop().await;
        node.stop().await;
    }
}

#[tokio::test]
async fn a24_an_address_that_is_none_is_refused_with_a_remedy() {
    for url in ["", "app.db", "mysql://x", "sqlite:"] {
        assert!(invalid(Punctual::open(url).await).remedy.is_some(), "{url}");
    }
}
