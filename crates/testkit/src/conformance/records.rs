//! What runs leave behind: logs, progress, artifacts with their contents, remembered steps.

use crate::prelude::*;
use punctual_core::id::JobId;
use punctual_core::job::{Artifact, NewJob};
use punctual_core::records::{ARTIFACT_MAX_BYTES, LogChunk, LogLine, LogStream, Progress};
use punctual_core::store::{Clock, FinishResult, FinishedRun, Lease, Retention, StoreError};

async fn running(world: &World, job: NewJob) -> (Lease, JobId) {
    let lease = world.node("a").await;
    let id = world.enqueue(job).await;
    assert_eq!(world.claim(lease, ALL).await, [id]);
    (lease, id)
}

fn line(sequence: u64, stream: LogStream, text: &str) -> LogLine {
    let at = clock_time("00:00:00") + secs(i64::try_from(sequence).expect("a small number"));
    LogLine { sequence, at, stream, text: text.to_owned() }
}

/// Lines with these numbers, as one chunk.
fn chunk(job_id: JobId, numbers: std::ops::RangeInclusive<u64>) -> LogChunk {
    let lines = numbers.map(|number| line(number, LogStream::Stdout, &format!("line {number}"))).collect();
    LogChunk { job_id, lines, progress: None }
}

async fn append(world: &World, lease: Lease, chunks: Vec<LogChunk>) -> Vec<bool> {
    world.store().append_log_if_leased(lease, chunks).await.expect("the lines are taken")
}

async fn log(world: &World, job: JobId, after: u64, limit: usize) -> Vec<LogLine> {
    world.store().run_log(job, after, limit).await.expect("a log can be read")
}

async fn numbers(world: &World, job: JobId, after: u64, limit: usize) -> Vec<u64> {
    log(world, job, after, limit).await.iter().map(|line| line.sequence).collect()
}

pub async fn c13_a_log_keeps_time_stream_and_text_of_every_line(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let lines = vec![
        line(1, LogStream::Stdout, "first"),
        line(2, LogStream::Stderr, "  Ärger \"twice\" \\ \t 🔥 \u{1b}[31m"),
        line(3, LogStream::System, ""),
        line(4, LogStream::Stdout, &"x".repeat(100_000)),
    ];
    assert_eq!(append(world, lease, vec![LogChunk { job_id: id, lines: lines.clone(), progress: None }]).await, [true]);
    world.complete(lease, id).await;
    world.reopen().await;
    assert_eq!(log(world, id, 0, ALL).await, lines);
    assert_eq!(log(world, JobId(nobody()), 0, ALL).await, []);
}

pub async fn c13_a_log_is_read_page_by_page_from_any_line(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let other = world.enqueue(job()).await;
    world.claim_one(lease).await;
    for first in (1..=100).step_by(5) {
        assert_eq!(
            append(world, lease, vec![chunk(id, first..=first + 4), chunk(other, first..=first)]).await,
            [true; 2]
        );
    }
    assert_eq!(numbers(world, id, 0, ALL).await, (1..=100).collect::<Vec<_>>());
    assert_eq!(numbers(world, id, 0, 7).await, (1..=7).collect::<Vec<_>>());
    assert_eq!(numbers(world, id, 7, 7).await, (8..=14).collect::<Vec<_>>());
    for after in [0, 4, 5, 6, 94, 99] {
        assert_eq!(numbers(world, id, after, ALL).await, (after + 1..=100).collect::<Vec<_>>(), "after {after}");
    }
    assert_eq!(numbers(world, id, 100, ALL).await, Vec::<u64>::new());
    assert_eq!(numbers(world, id, u64::MAX, ALL).await, Vec::<u64>::new());
    assert_eq!(numbers(world, id, 0, 0).await, Vec::<u64>::new());
    assert_eq!(numbers(world, other, 0, ALL).await.len(), 20, "each run has a log of its own");
}

pub async fn c13_a_log_can_be_followed_from_elsewhere_while_its_run_goes_on(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let elsewhere = world.second_store().await;
    let mut seen = 0;
    for first in [1, 4, 7] {
        append(world, lease, vec![chunk(id, first..=first + 2)]).await;
        let news = elsewhere.run_log(id, seen, ALL).await.expect("a log can be read while its run goes on");
        assert_eq!(news.iter().map(|line| line.sequence).collect::<Vec<_>>(), (first..=first + 2).collect::<Vec<_>>());
        seen = news.last().expect("there is news").sequence;
    }
}

pub async fn c13_a_chunk_that_is_sent_twice_is_kept_once(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    for _ in 0..2 {
        assert_eq!(append(world, lease, vec![chunk(id, 1..=3), chunk(id, 4..=4)]).await, [true; 2]);
    }
    assert_eq!(numbers(world, id, 0, ALL).await, [1, 2, 3, 4]);
    assert_eq!(append(world, lease, Vec::new()).await, Vec::<bool>::new());
}

pub async fn c13_only_the_holder_of_the_lease_adds_to_a_log(world: &mut World) {
    let (lease, id) = running(world, retried_job(1, SHORTEST_WAIT)).await;
    let other = world.node("b").await;
    let waiting = world.enqueue(job()).await;
    for lease in [other, foreign_lease(), Lease { node_id: lease.node_id, ..other }] {
        assert_eq!(append(world, lease, vec![chunk(id, 1..=1)]).await, [false]);
    }
    let mixed = vec![chunk(waiting, 1..=1), chunk(id, 1..=1), chunk(JobId(nobody()), 1..=1)];
    assert_eq!(append(world, lease, mixed).await, [false, true, false], "each is judged by itself");
    world.recover(lease).await;
    let late = LogChunk { progress: Some(Progress::new(99, "late")), ..chunk(id, 2..=2) };
    assert_eq!(append(world, lease, vec![late]).await, [false], "a run that was closed takes no more");
    assert_eq!(numbers(world, id, 0, ALL).await, [1]);
    assert_eq!(world.store().run_progress(id).await, Ok(None));
    assert_eq!(numbers(world, waiting, 0, ALL).await, Vec::<u64>::new());
}

pub async fn c13_a_log_replaces_what_no_text_column_keeps(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let odd = String::from_utf8_lossy(b"a\xff\xfe\0b").into_owned();
    let lines = vec![line(1, LogStream::Stdout, &odd), line(2, LogStream::Stdout, "fine")];
    let progress = Some(Progress::new(1, "so\0far"));
    append(world, lease, vec![LogChunk { job_id: id, lines, progress }]).await;
    let texts: Vec<_> = log(world, id, 0, ALL).await.into_iter().map(|line| line.text).collect();
    assert_eq!(texts, ["a\u{fffd}\u{fffd}\u{fffd}b", "fine"]);
    let (_, progress) = world.store().run_progress(id).await.expect("it can be read").expect("it was told");
    assert_eq!(progress.note, "so\u{fffd}far");
}

pub async fn c13_progress_is_what_was_told_last(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    assert_eq!(world.store().run_progress(id).await, Ok(None));
    let told = |percent, note: &str| {
        let progress = Some(Progress { percent, note: note.to_owned() });
        LogChunk { job_id: id, lines: Vec::new(), progress }
    };
    assert_eq!(append(world, lease, vec![told(10, "began"), told(20, "goes on")]).await, [true; 2]);
    let kept = (clock_time("00:00:00"), Progress::new(20, "goes on"));
    assert_eq!(world.store().run_progress(id).await, Ok(Some(kept)));
    world.set_time("00:00:05");
    append(world, lease, vec![told(250, "done"), chunk(id, 1..=1)]).await;
    world.complete(lease, id).await;
    let kept = (clock_time("00:00:05"), Progress::new(100, "done"));
    assert_eq!(world.store().run_progress(id).await, Ok(Some(kept)), "it stays when the run has ended");
}

pub async fn c13_the_database_refuses_to_change_what_runs_leave_behind(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    append(world, lease, vec![chunk(id, 1..=1)]).await;
    let store = world.store();
    store.keep_artifact_if_leased(lease, id, "a", vec![1]).await.expect("it is kept");
    store.remember_step_if_leased(lease, id, "s", json("1")).await.expect("it is remembered");
    for ended in [false, true] {
        for change in
            ["{run_logs} SET lines = '[]'", "{artifact_contents} SET number = 9", "{step_memos} SET step = 'x'"]
        {
            world.assert_database_refuses(&format!("UPDATE {change}")).await;
        }
        for table in ["{run_logs}", "{artifact_contents}", "{step_memos}"] {
            world.assert_database_refuses(&format!("DELETE FROM {table}")).await;
        }
        if !ended {
            world.complete(lease, id).await;
        }
    }
}

pub async fn c13_what_a_run_left_behind_goes_with_it(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let told = LogChunk { progress: Some(Progress::new(1, "")), ..chunk(id, 1..=1) };
    append(world, lease, vec![told]).await;
    let store = world.store();
    store.keep_artifact_if_leased(lease, id, "a", vec![1]).await.expect("it is kept");
    store.remember_step_if_leased(lease, id, "s", json("1")).await.expect("it is remembered");
    world.complete(lease, id).await;
    world.set_time("12:00:00");
    let now = world.clock.now();
    let retention = Retention::before(now, ALL);
    assert_eq!(store.prune_history(retention).await.expect("pruning succeeds").jobs, 1);
    for table in ["run_logs", "run_progress", "artifacts", "artifact_contents", "step_memos"] {
        assert_eq!(world.count(&format!("SELECT COUNT(*) FROM {{{table}}}")).await, 0, "{table}");
    }
    assert_eq!(log(world, id, 0, ALL).await, []);
}

pub async fn c13_an_artifact_can_be_read_by_any_node(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let store = world.store();
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let elsewhere = Artifact { location: "file:/x".to_owned(), ..Artifact::of("z", b"z").expect("small") };
    store.add_artifacts_if_leased(lease, id, vec![elsewhere]).await.expect("it is listed");
    let kept = store.keep_artifact_if_leased(lease, id, "out/report ü.bin", bytes.clone()).await.expect("it is kept");
    assert_eq!(kept, Artifact::of("out/report ü.bin", &bytes).expect("small enough"));
    store.keep_artifact_if_leased(lease, id, "empty", Vec::new()).await.expect("an empty one too");
    let late = FinishedRun::completed(id);
    assert_eq!(world.finish(lease, late).await, FinishResult::Closed { retry: None });
    let refused = store.keep_artifact_if_leased(lease, id, "late", vec![1]).await;
    assert_eq!(refused, Err(StoreError::LostLease));
    let second = world.second_store().await;
    let names: Vec<_> = second.artifacts(id).await.expect("listed").into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["z", "out/report ü.bin", "empty"]);
    assert_eq!(second.artifact_contents(id, 1).await, Ok(None), "that one is elsewhere");
    assert_eq!(second.artifact_contents(id, 2).await, Ok(Some(bytes)));
    assert_eq!(second.artifact_contents(id, 3).await, Ok(Some(Vec::new())));
    for number in [0, 4, u64::MAX] {
        assert_eq!(second.artifact_contents(id, number).await, Ok(None));
    }
}

pub async fn c13_an_artifact_that_is_too_large_is_refused(world: &mut World) {
    let (lease, id) = running(world, job()).await;
    let store = world.store();
    let refused = refusal(store.keep_artifact_if_leased(lease, id, "big", vec![0; ARTIFACT_MAX_BYTES + 1]).await);
    assert!(refused.to_string().contains(&ARTIFACT_MAX_BYTES.to_string()), "{refused}");
    refusal(store.keep_artifact_if_leased(lease, id, "a\0b", Vec::new()).await);
    assert_eq!(store.artifacts(id).await, Ok(Vec::new()));
}

pub async fn c04_a_step_is_remembered_once_for_its_whole_chain(world: &mut World) {
    let (lease, first) = running(world, retried_job(3, SHORTEST_WAIT)).await;
    let store = world.store();
    assert_eq!(store.remembered_step(first, "charge").await, Ok(None));
    let remember = |job, value| store.remember_step_if_leased(lease, job, "charge", value);
    assert_eq!(remember(first, json(r#"{"id": 7}"#)).await, Ok(json(r#"{"id": 7}"#)));
    assert_eq!(remember(first, json("8")).await, Ok(json(r#"{"id": 7}"#)), "the first one stands");
    let second = world.fail_and_requeue(lease, first).await;
    world.claim_one(lease).await;
    assert_eq!(remember(second, json("9")).await, Ok(json(r#"{"id": 7}"#)), "in the next attempt too");
    let root = world.job(second).await.job.root_job_id;
    assert_eq!((root, store.remembered_step(root, "charge").await), (first, Ok(Some(json(r#"{"id": 7}"#)))));
    assert_eq!(store.remembered_step(root, "Charge").await, Ok(None));
    assert_eq!(store.remember_step_if_leased(lease, second, "note", json("null")).await, Ok(json("null")));
    assert_eq!(store.remembered_step(root, "note").await, Ok(Some(json("null"))));
}

pub async fn c04_a_step_is_remembered_by_the_holder_of_the_lease_alone(world: &mut World) {
    let (lease, id) = running(world, retried_job(1, SHORTEST_WAIT)).await;
    let store = world.store();
    for lease in [foreign_lease(), world.node("b").await] {
        let refused = store.remember_step_if_leased(lease, id, "charge", json("1")).await;
        assert_eq!(refused, Err(StoreError::LostLease));
    }
    refusal(store.remember_step_if_leased(lease, id, "", json("1")).await);
    world.fail(lease, id).await;
    let late = store.remember_step_if_leased(lease, id, "charge", json("1")).await;
    assert_eq!(late, Err(StoreError::LostLease));
    assert_eq!(store.remembered_step(id, "charge").await, Ok(None));
}
