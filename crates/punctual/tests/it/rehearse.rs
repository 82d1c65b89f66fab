//! The test mode: time that a test turns, and everything that becomes due meanwhile.

use punctual::testing::TestPunctual;
use punctual::{
    Context, ErrorCode, Missed, NodeEvent, Overlap, RetryPolicy, SignedDuration, TaskError, Timestamp, Trigger,
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[tokio::test]
async fn d02_a_year_of_days_runs_in_order_each_at_its_own_time() {
    let test = TestPunctual::new().await.unwrap();
    test.task("daily", |context: Context, (): ()| async move { Ok::<_, TaskError>(context.job.slot_at) });
    let daily = test.schedule("daily").cron("30 2 * * *").unwrap().timezone("America/New_York").unwrap();
    daily.task("daily").input(&()).unwrap().save().await.unwrap();
    let ran = test.advance(DAY * 365).await.unwrap();
    assert_eq!(ran.len(), 365);
    assert!(ran.is_sorted_by_key(|run| run.at));
    assert!(ran.iter().all(|run| Some(run.at) == run.slot_at && run.trigger == Trigger::Schedule));
    assert_eq!(test.now(), at("2027-03-01T00:00:00Z"));
    assert_eq!(test.queued("default").await.unwrap(), 0);
}

#[tokio::test]
async fn c04_retries_run_when_their_wait_is_over() {
    let test = TestPunctual::new().await.unwrap();
    test.task("flaky", |context: Context, (): ()| async move {
        if context.job.attempt < 3 { Err(TaskError::Retryable("not yet".to_owned())) } else { Ok(()) }
    });
    let wait = SignedDuration::from_mins(10);
    let policy = RetryPolicy { base: wait, backoff: punctual::Backoff::Fixed, ..RetryPolicy::default() };
    let job = test.enqueue("flaky", &()).retry(policy).send().await.unwrap();
    let ran = test.advance(HOUR).await.unwrap();
    let facts: Vec<_> = ran.iter().map(|run| (run.at.to_string(), run.attempt, run.error_code)).collect();
    assert_eq!(
        facts,
        [
            ("2026-03-01T00:00:00Z".to_owned(), 1, Some(ErrorCode::TargetError)),
            ("2026-03-01T00:10:00Z".to_owned(), 2, Some(ErrorCode::TargetError)),
            ("2026-03-01T00:20:00Z".to_owned(), 3, None),
        ]
    );
    job.wait::<()>().await.unwrap();
}

#[tokio::test]
async fn a07_what_was_missed_while_nobody_worked_is_decided_by_the_policy() {
    let test = TestPunctual::new().await.unwrap();
    test.task("tick", |_: Context, name: String| async move { Ok::<_, TaskError>(name) });
    for (name, missed) in [("skip", Missed::SKIP), ("once", Missed::ONCE), ("all", Missed::all(100))] {
        let tick = test.schedule(name).cron("0 * * * *").unwrap().task("tick").input(name).unwrap();
        tick.missed(missed).save().await.unwrap();
    }
    test.sleep(HOUR * 5 + HOUR / 2);
    let mut names: Vec<String> = Vec::new();
    for run in test.run_pending().await.unwrap() {
        assert_eq!(run.trigger, Trigger::Catchup);
        names.push(run.output().unwrap());
    }
    names.sort();
    assert_eq!(names, ["all", "all", "all", "all", "all", "once"]);
    assert_eq!(test.advance(HOUR).await.unwrap().len(), 3, "the next slot is on time for all three");
}

#[tokio::test]
async fn e06_a_task_that_is_not_registered_is_shown_on_the_schedule() {
    let test = TestPunctual::new().await.unwrap();
    test.schedule("typo").cron("@hourly").unwrap().task("repotr").save().await.unwrap();
    assert_eq!(test.advance(DAY).await.unwrap(), []);
    let problem = test.schedule_state("typo").await.unwrap().unwrap().state.problem;
    assert!(problem.is_some_and(|words| words.contains("task:repotr")));
}

#[tokio::test]
async fn a21_jobs_that_enqueue_jobs_are_followed_to_the_last() {
    let test = TestPunctual::new().await.unwrap();
    let inner = (*test).clone();
    test.task("countdown", move |_: Context, n: u32| {
        let punctual = inner.clone();
        async move {
            if n > 0 {
                let next = punctual.enqueue("countdown", &(n - 1)).send().await;
                next.map_err(|error| TaskError::Retryable(error.to_string()))?;
            }
            Ok(n)
        }
    });
    test.enqueue("countdown", &5).send().await.unwrap();
    let ran = test.run_pending().await.unwrap();
    let outputs: Vec<u32> = ran.iter().map(|run| run.output().unwrap()).collect();
    assert_eq!(outputs, [5, 4, 3, 2, 1, 0]);
    let forbid = test.schedule("f").every(HOUR).task("countdown").input(&0).unwrap().overlap(Overlap::Forbid);
    forbid.save().await.unwrap();
    assert_eq!(test.advance(HOUR * 3).await.unwrap().len(), 3);
    assert_ne!(NodeEvent::Ready, NodeEvent::Left);
}
