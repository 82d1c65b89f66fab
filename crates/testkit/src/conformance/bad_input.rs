//! Bad input: each a typed refusal or a row that is found again, never a panic, and nothing changed.

use crate::prelude::*;
use jiff::{SignedDuration, Timestamp};
use punctual_core::job::{NewJob, Timeout};
use punctual_core::json::Json;
use punctual_core::limits::Claimed;
use punctual_core::name::Name;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Dependency, Missed, ScheduleDefinition};
use punctual_core::store::{FinishResult, FinishedRun, Retention, ScheduleKey};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;

fn timed(timing: TimingSpec) -> ScheduleDefinition {
    ScheduleDefinition::new(named("bad"), timing, Target::task("work"))
}

fn bad_definitions() -> Vec<(&'static str, ScheduleDefinition)> {
    let base = || minutely("bad");
    vec![
        ("cron", timed(TimingSpec::cron("0 0 * *", "UTC"))),
        ("cron", timed(TimingSpec::cron("", "UTC"))),
        ("cron", timed(TimingSpec::cron("61 * * * *", "UTC"))),
        ("cron", timed(TimingSpec::cron("* * * * * * * * *", "UTC"))),
        ("cron", timed(TimingSpec::cron("@never", "UTC"))),
        ("cron", timed(TimingSpec::cron("\0 * * * *", "UTC"))),
        ("timezone", timed(TimingSpec::cron("* * * * *", "Mars/Olympus"))),
        ("timezone", timed(TimingSpec::cron("* * * * *", "../../etc/passwd"))),
        ("every", timed(TimingSpec::Every { period: SignedDuration::ZERO })),
        ("every", timed(TimingSpec::Every { period: secs(-5) })),
        ("every", timed(TimingSpec::Every { period: SignedDuration::from_millis(999) })),
        ("target.argv", ScheduleDefinition { target: Target::command(Vec::<String>::new()), ..base() }),
        ("queue", ScheduleDefinition { queue: String::new(), ..base() }),
        ("queue", ScheduleDefinition { queue: "a\0b".to_owned(), ..base() }),
        ("description", ScheduleDefinition { description: "nul\0".to_owned(), ..base() }),
        ("timeout", ScheduleDefinition { timeout: Timeout::After(SignedDuration::ZERO), ..base() }),
        ("jitter", ScheduleDefinition { jitter: secs(-1), ..base() }),
        ("max_concurrent_runs", ScheduleDefinition { max_concurrent_runs: Some(0), ..base() }),
        ("pause_after_failures", ScheduleDefinition { pause_after_failures: Some(0), ..base() }),
        ("missed.limit", ScheduleDefinition { missed: Missed::all(0), ..base() }),
        ("missed.window", ScheduleDefinition { missed: Missed::Skip { window: secs(-1) }, ..base() }),
        ("retry.max_attempts", ScheduleDefinition { retry: retry(0, secs(1)), ..base() }),
        (
            "ends_at",
            ScheduleDefinition {
                starts_at: Some(clock_time("02:00:00")),
                ends_at: Some(clock_time("01:00:00")),
                ..base()
            },
        ),
    ]
}

pub async fn d05_a_definition_that_could_never_work_is_refused_by_its_field(world: &mut World) {
    let sound = world.create(hourly("sound")).await;
    for (field, definition) in bad_definitions() {
        let created = world.store().create_schedule(definition.clone()).await;
        assert_eq!(refusal(created).field, field, "{definition:?}");
        let edited = world.store().update_schedule_if_version(sound.id, 1, definition).await;
        assert_eq!(refusal(edited).field, field);
    }
    assert_eq!(world.store().schedules(None, ALL).await, Ok(vec![sound]));
    assert_eq!(world.store().next_due_in().await, Ok(Some(mins(60))));
}

pub async fn d05_a_cron_that_never_comes_is_refused_or_exhausted(world: &mut World) {
    match world.store().create_schedule(timed(TimingSpec::cron("0 0 30 2 *", "UTC"))).await {
        Ok(schedule) => {
            assert_eq!(schedule.state.next_slot_at, None);
            assert!(schedule.state.exhausted_at.is_some(), "the 30th of February never comes");
        }
        refused => assert_eq!(refusal(refused).field, "cron"),
    }
    assert_eq!(world.store().next_due_in().await, Ok(None));
}

pub async fn d05_times_at_the_edges_of_the_calendar_are_survived(world: &mut World) {
    let at = |at: Timestamp| timed(TimingSpec::At { at });
    refusal(world.store().create_schedule(at(Timestamp::MIN)).await);
    let year_zero = instant("0000-01-01T00:00:00Z");
    refusal(world.store().create_schedule(at(year_zero)).await);
    let schedule = world.create(hourly("edges")).await;
    refusal(world.store().reschedule(schedule.id, year_zero).await);
    refusal(world.store().reschedule(schedule.id, Timestamp::MIN).await);
    let last = world.create(ScheduleDefinition { name: named("last"), ..at(instant("9999-12-30T00:00:00Z")) }).await;
    assert_eq!(last.state.next_slot_at, Some(instant("9999-12-30T00:00:00Z")));
    let far = NewJob { run_at: Some(instant("9999-12-30T00:00:00Z")), ..job() };
    let far = world.enqueue(far).await;
    let past = world.enqueue(NewJob { run_at: Some(year_zero), ..job() }).await;
    assert_eq!(world.queue("default").await, [past], "what is long past is ready");
    assert_eq!(world.job(far).await.job.spec.run_at, Some(instant("9999-12-30T00:00:00Z")));
    assert_eq!(world.fire().await.jobs, []);
}

pub async fn c02_hostile_names_are_found_again_verbatim(world: &mut World) {
    let names = [
        "🌙 nightly 👩‍👩‍👧",
        "'; DROP TABLE punctual_schedules; --",
        "\"quoted\" `ticked` \\back\\slash",
        "%_*?[a-z]",
        "{schedules}",
        "a/b/../c",
        "ｆｕｌｌ",
        "e\u{301}",
        "é",
    ];
    for name in names {
        let made = world.create(hourly(name)).await;
        let found = world.store().schedule(&ScheduleKey::from(name)).await;
        assert_eq!(found, Ok(Some(made)), "{name}");
    }
    assert_eq!(world.store().schedules(None, ALL).await.map(|all| all.len()), Ok(names.len()));
    for hostile in names {
        let spec = NewJob {
            queue: hostile.to_owned(),
            serial_key: Some(hostile.to_owned()),
            tags: vec![hostile.to_owned()],
            ..job()
        };
        let id = world.enqueue(spec.clone()).await;
        assert_eq!(world.job(id).await.job.spec, spec);
        assert_eq!(world.queue(hostile).await, [id]);
    }
}

pub async fn c02_the_longest_names_fit_and_longer_ones_are_refused(world: &mut World) {
    let longest = "🌙".repeat(200);
    let made = world.create(hourly(&longest)).await;
    assert_eq!(world.store().schedule(&ScheduleKey::from(longest.as_str())).await, Ok(Some(made)));
    assert!(Name::new("x".repeat(201)).is_err());
    let refused = world.store().enqueue_jobs(vec![NewJob { queue: "x".repeat(201), ..job() }]).await;
    assert_eq!(refusal(refused).field, "queue");
}

pub async fn c12_ten_megabytes_of_input_are_refused_and_the_largest_input_is_kept(world: &mut World) {
    let huge = format!("\"{}\"", "x".repeat(10_000_000));
    assert!(Json::parse("input", &huge).is_err());
    let largest = json(&format!("\"{}\"", "x".repeat((1 << 20) - 2)));
    let id = world.enqueue(NewJob { input: largest.clone(), ..job() }).await;
    assert_eq!(world.job(id).await.job.spec.input, largest);
    assert_eq!(world.queue("default").await, [id]);
}

pub async fn c12_nul_is_refused_in_input_and_replaced_in_what_a_run_returns(world: &mut World) {
    assert!(Json::parse("input", r#""a\u0000b""#).is_err());
    let lease = world.node("a").await;
    let made = world.enqueue_all(vec![retried_job(1, SHORTEST_WAIT); 3]).await;
    world.claim(lease, ALL).await;
    let bad = FinishedRun {
        error: Some("before\0after".to_owned()),
        log_ref: Some("log\0ref".to_owned()),
        ..FinishedRun::failed(made[1], ErrorCode::TargetError, "")
    };
    let reports = vec![FinishedRun::completed(made[0]), bad, FinishedRun::completed(made[2])];
    let results = world.store().finish_runs_if_leased(lease, reports).await.expect("a batch is not poisoned");
    assert_eq!(results, vec![FinishResult::Closed { retry: None }; 3]);
    let run = world.closed_run(made[1]).await;
    let error = run.error.expect("it was told");
    assert!(!error.contains('\0') && error.starts_with("before") && error.ends_with("after"), "{error:?}");
    assert!(!run.log_ref.is_some_and(|log_ref| log_ref.contains('\0')));
}

pub async fn c12_a_failed_end_without_a_code_is_still_recorded(world: &mut World) {
    let lease = world.node("a").await;
    let id = world.enqueue(retried_job(1, SHORTEST_WAIT)).await;
    world.claim_one(lease).await;
    let report = FinishedRun { outcome: Outcome::Failed, ..FinishedRun::completed(id) };
    assert!(matches!(world.finish(lease, report).await, FinishResult::Closed { .. }));
    let run = world.closed_run(id).await;
    assert_eq!(run.outcome, Outcome::Failed);
    assert!(run.error_code.is_some(), "a failure always says why");
}

pub async fn c12_an_endless_error_text_is_cut(world: &mut World) {
    let lease = world.node("a").await;
    let id = world.enqueue(retried_job(1, SHORTEST_WAIT)).await;
    world.claim_one(lease).await;
    let endless = FinishedRun::failed(id, ErrorCode::TargetError, "ü".repeat(5_000_000));
    assert_eq!(world.finish(lease, endless).await, FinishResult::Closed { retry: None });
    let kept = world.closed_run(id).await.error.expect("it was told");
    assert!(kept.starts_with("üüü") && kept.len() <= 1 << 20, "{} bytes are kept", kept.len());
}

pub async fn c12_jobs_that_could_never_run_are_refused_by_their_field(world: &mut World) {
    let bad = [
        ("target.name", NewJob { target: Target::task(""), ..job() }),
        ("queue", NewJob { queue: " padded".to_owned(), ..job() }),
        ("serial_key", NewJob { serial_key: Some("a\nb".to_owned()), ..job() }),
        ("tags", NewJob { tags: vec!["t".to_owned(); 33], ..job() }),
        ("timeout", NewJob { timeout: Timeout::After(secs(-1)), ..job() }),
        ("retry.max", NewJob { retry: RetryPolicy { max: secs(-1), ..RetryPolicy::default() }, ..job() }),
    ];
    for (field, job) in bad {
        assert_eq!(refusal(world.store().enqueue_jobs(vec![job.clone()]).await).field, field);
        assert_eq!(refusal(world.store().create_template(named("bad"), job, vec![]).await).field, field);
    }
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 0);
    assert_eq!(world.store().template("bad").await, Ok(None));
}

pub async fn c12_empty_batches_and_limits_of_zero_do_nothing(world: &mut World) {
    world.create(minutely("due")).await;
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let store = world.store();
    assert_eq!(store.enqueue_jobs(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(store.finish_runs_if_leased(lease, Vec::new()).await, Ok(Vec::new()));
    assert_eq!(store.give_back_if_leased(lease, Vec::new()).await, Ok(Vec::new()));
    assert_eq!(store.fire_due(None, 0).await.map(|fired| fired.jobs), Ok(Vec::new()));
    assert_eq!(store.promote_due_jobs(0).await, Ok(0));
    assert_eq!(store.claim_jobs_if_leased(claim_request(lease, 0)).await, Ok(Claimed::default()));
    assert_eq!(store.queued_jobs("default", None, 0).await, Ok(Vec::new()));
    assert_eq!(world.queue("default").await, [id]);
}

pub async fn c12_the_largest_limits_are_survived(world: &mut World) {
    let schedule = world.create(minutely("due")).await;
    world.set_time("00:01:00");
    let store = world.store();
    let id = store.fire_due(None, usize::MAX).await.expect("firing succeeds").jobs[0];
    let lease = world.node("a").await;
    assert_eq!(store.promote_due_jobs(usize::MAX).await, Ok(0));
    assert_eq!(store.queued_jobs("default", None, usize::MAX).await.map(|all| all.len()), Ok(1));
    assert_eq!(world.claim(lease, usize::MAX).await, [id]);
    assert_eq!(store.schedules(None, usize::MAX).await.map(|all| all.len()), Ok(1));
    assert_eq!(store.slots(schedule.id, None, usize::MAX).await.map(|all| all.len()), Ok(1));
    assert_eq!(store.schedule_jobs(schedule.id, None, usize::MAX).await.map(|all| all.len()), Ok(1));
    let reconciled = store.reconcile_schedules(None, usize::MAX).await.expect("reconciling succeeds");
    assert_eq!((reconciled.looked_at, reconciled.replanned), (1, 0));
    let (before, limit) = (Timestamp::MIN, usize::MAX);
    let pruned = store.prune_history(Retention::before(before, limit)).await;
    assert_eq!(pruned.map(|pruned| pruned.jobs), Ok(0));
}

pub async fn d11_a_schedule_that_depends_on_nobody_is_survived(world: &mut World) {
    let unknown = Dependency { schedule_id: punctual_core::id::ScheduleId(nobody()), within: mins(5) };
    let definition = ScheduleDefinition { depends_on: Some(unknown), ..minutely("dependent") };
    if let Ok(schedule) = world.store().create_schedule(definition).await {
        world.set_time("00:01:00");
        let fired = world.fire().await;
        assert_eq!((fired.jobs.len(), fired.slots_not_run), (0, 1));
        assert_eq!(world.ledger(schedule.id).await.len(), 1);
    }
}
