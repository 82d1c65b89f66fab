//! What may happen to a store: operations that mean something in every state, so that a history can be shortened.

use crate::model::{Beat, Definition, MissedRule, OverlapRule, SECOND, Spec};
use proptest::prelude::*;
use punctual_core::run::{ErrorCode, Trigger};

/// One step. Numbers pick among what exists when the step is taken.
#[derive(Debug, Clone)]
pub enum Op {
    /// Stores a schedule.
    Create(Draft),
    /// Edits one.
    Update(usize, Draft),
    /// Edits everything but the times of one.
    Retouch(usize, Draft),
    /// Pauses one.
    Pause(usize),
    /// Pauses one until so many seconds from now.
    PauseUntil(usize, i64),
    /// Resumes one.
    Resume(usize),
    /// Moves the next fire of one to so many seconds from now.
    Reschedule(usize, i64),
    /// Leaves the next fire of one out.
    SkipNext(usize),
    /// Triggers one.
    Trigger(usize),
    /// Deletes one.
    Delete(usize),
    /// Lets microseconds pass; a clock may also be turned back.
    Pass(i64),
    /// Fires what is due.
    Fire,
    /// Makes jobs.
    Enqueue(Vec<DraftJob>),
    /// Promotes what is due.
    Promote,
    /// Moves a queued job.
    Move(usize, usize, Direction),
    /// Edits a queued job.
    Edit(usize, u32),
    /// Cancels a job that is alive.
    Cancel(usize),
    /// Brings a node in.
    Register,
    /// Lets a node beat.
    Beat(usize),
    /// Lets a node claim from a queue.
    Claim(usize, usize, usize),
    /// Ends a running job.
    Finish(usize, Ending),
    /// Ends a job by a node that does not run it.
    FinishFalsely(usize, usize),
    /// Gives a running job back.
    GiveBack(usize),
    /// Declares a node lost.
    Recover(usize),
    /// Reserves a queue for seconds.
    Reserve(usize, i64),
    /// Releases a queue.
    Release(usize),
    /// Pauses a queue or lets it go on.
    SetPaused(usize, bool),
    /// Forgets what is older than so many seconds.
    Prune(i64),
    /// Looks for impossible plans, of which there are none.
    Reconcile,
    /// Closes and opens the store.
    Reopen,
    /// The same step while every commit is refused.
    Refused(Box<Op>),
}

/// Where a job is moved to.
#[derive(Debug, Clone, Copy)]
pub enum Direction {
    /// The front.
    Front,
    /// The back.
    Back,
    /// Directly before another one.
    Before,
    /// Directly behind another one.
    After,
    /// The back of another priority.
    Priority(i32),
}

/// How a run ends; what cannot be helped among them.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    /// Well.
    Completed,
    /// Badly.
    Failed(ErrorCode),
    /// Stopped.
    Cancelled,
}

/// A schedule to be.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its definition, with instants relative to now and the dependency as a pick.
    pub definition: Definition,
}

/// A job to be.
#[derive(Debug, Clone)]
pub struct DraftJob {
    /// What it is.
    pub spec: Spec,
    /// How many seconds it waits.
    pub delay: Option<i64>,
}

/// The queues that operations use.
pub const QUEUES: [&str; 2] = ["default", "other"];

fn queue() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("default".to_owned()), 1 => Just("other".to_owned())]
}

fn spec() -> impl Strategy<Value = Spec> {
    (queue(), -1..=1i32, proptest::option::weighted(0.4, 0..2u8), any::<u8>(), 1..=3u32, 1..=90i64, 0..=2u32).prop_map(
        |(queue, priority, key, input, max_attempts, wait, max_interruptions)| Spec {
            key: key.map(|key| format!("{key} of {queue}")),
            queue,
            priority,
            input: u32::from(input),
            max_attempts,
            wait: wait * SECOND,
            max_interruptions,
            trigger: Trigger::Api,
        },
    )
}

fn beat() -> impl Strategy<Value = Beat> {
    prop_oneof![
        3 => prop_oneof![Just(7), Just(45), Just(90), Just(600)].prop_map(Beat::Every),
        3 => prop_oneof![Just(1), Just(5), Just(15), Just(60)].prop_map(Beat::Minutes),
        1 => (-5..900i64).prop_map(|seconds| Beat::At(seconds * SECOND)),
    ]
}

fn missed() -> impl Strategy<Value = MissedRule> {
    let window = || proptest::option::weighted(0.3, 1..400i64);
    prop_oneof![
        2 => prop_oneof![Just(60), 1..400i64].prop_map(MissedRule::Skip),
        3 => window().prop_map(MissedRule::Once),
        2 => (1..6usize, window()).prop_map(|(limit, window)| MissedRule::All(limit, window)),
    ]
}

fn overlap() -> impl Strategy<Value = OverlapRule> {
    prop_oneof![
        3 => Just(OverlapRule::Allow),
        1 => Just(OverlapRule::Forbid),
        1 => Just(OverlapRule::Replace),
        1 => Just(OverlapRule::QueueOne),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let bound = proptest::option::weighted(0.15, (1..1200i64).prop_map(|seconds| seconds * SECOND));
    let alive = proptest::option::weighted(0.2, 1..3usize);
    let other = proptest::option::weighted(0.2, (any::<u8>(), 1..600i64));
    let jitter = prop_oneof![3 => Just(0i64), 1 => 1..200i64];
    let stops_after = proptest::option::weighted(0.25, 1..3u32);
    let rest = (proptest::bool::weighted(0.3), jitter, stops_after);
    (beat(), bound, missed(), overlap(), alive, rest, other, spec()).prop_map(
        |(beat, ends_at, missed, overlap, max_alive, (serial, jitter, stops_after), other, job)| {
            // A single instant with an end before it is no schedule at all.
            let ends_at = ends_at.filter(|_| !matches!(beat, Beat::At(_)));
            let depends_on = other.map(|(pick, within)| (usize::from(pick), within));
            let job = Spec { key: None, ..job };
            Draft {
                definition: Definition {
                    beat,
                    ends_at,
                    missed,
                    overlap,
                    max_alive,
                    serial,
                    depends_on,
                    jitter,
                    stops_after,
                    job,
                },
            }
        },
    )
}

fn draft_job() -> impl Strategy<Value = DraftJob> {
    (spec(), proptest::option::weighted(0.3, -5..200i64)).prop_map(|(spec, delay)| DraftJob { spec, delay })
}

fn ending() -> impl Strategy<Value = Ending> {
    let code = prop_oneof![
        4 => Just(ErrorCode::TargetError),
        1 => Just(ErrorCode::Timeout),
        1 => Just(ErrorCode::Interrupted),
        1 => Just(ErrorCode::ScopeDenied),
    ];
    prop_oneof![3 => Just(Ending::Completed), 3 => code.prop_map(Ending::Failed), 1 => Just(Ending::Cancelled)]
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![
        Just(Direction::Front),
        Just(Direction::Back),
        Just(Direction::Before),
        Just(Direction::After),
        (-1..=1i32).prop_map(Direction::Priority),
    ]
}

fn passing() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => (0..70i64).prop_map(|seconds| seconds * SECOND),
        3 => 1..200 * SECOND,
        1 => (0..3600i64).prop_map(|seconds| seconds * SECOND),
        1 => (-120..0i64).prop_map(|seconds| seconds * SECOND),
    ]
}

fn pick() -> impl Strategy<Value = usize> {
    0..64usize
}

fn steering() -> BoxedStrategy<Op> {
    prop_oneof![
        4 => draft().prop_map(Op::Create),
        1 => (pick(), draft()).prop_map(|(which, draft)| Op::Update(which, draft)),
        1 => (pick(), draft()).prop_map(|(which, draft)| Op::Retouch(which, draft)),
        1 => pick().prop_map(Op::Pause),
        2 => (pick(), -5..900i64).prop_map(|(which, seconds)| Op::PauseUntil(which, seconds)),
        2 => pick().prop_map(Op::Resume),
        1 => (pick(), -5..900i64).prop_map(|(which, seconds)| Op::Reschedule(which, seconds)),
        1 => pick().prop_map(Op::SkipNext),
        1 => pick().prop_map(Op::Trigger),
        1 => pick().prop_map(Op::Delete),
    ]
    .boxed()
}

fn queueing() -> BoxedStrategy<Op> {
    prop_oneof![
        4 => proptest::collection::vec(draft_job(), 1..4).prop_map(Op::Enqueue),
        2 => Just(Op::Promote),
        4 => (pick(), pick(), direction()).prop_map(|(job, other, to)| Op::Move(job, other, to)),
        1 => (pick(), 300..400u32).prop_map(|(job, input)| Op::Edit(job, input)),
        1 => pick().prop_map(Op::Cancel),
        1 => (0..2usize, 1..120i64).prop_map(|(queue, seconds)| Op::Reserve(queue, seconds)),
        1 => (0..2usize).prop_map(Op::Release),
        1 => (0..2usize, any::<bool>()).prop_map(|(queue, on)| Op::SetPaused(queue, on)),
    ]
    .boxed()
}

fn working() -> BoxedStrategy<Op> {
    prop_oneof![
        2 => Just(Op::Register),
        1 => pick().prop_map(Op::Beat),
        6 => (pick(), 0..2usize, 1..5usize).prop_map(|(node, queue, limit)| Op::Claim(node, queue, limit)),
        6 => (pick(), ending()).prop_map(|(job, ending)| Op::Finish(job, ending)),
        1 => (pick(), pick()).prop_map(|(job, node)| Op::FinishFalsely(job, node)),
        1 => pick().prop_map(Op::GiveBack),
        1 => pick().prop_map(Op::Recover),
    ]
    .boxed()
}

fn plain() -> BoxedStrategy<Op> {
    prop_oneof![
        3 => steering(),
        5 => passing().prop_map(Op::Pass),
        4 => Just(Op::Fire),
        4 => queueing(),
        5 => working(),
    ]
    .boxed()
}

/// A step of a crowded queue: few kinds of jobs, many moves.
fn crowding() -> BoxedStrategy<Op> {
    let job = (proptest::bool::weighted(0.2), any::<u8>()).prop_map(|(serial, input)| DraftJob {
        spec: Spec {
            queue: "default".to_owned(),
            priority: 0,
            key: serial.then(|| "crowd".to_owned()),
            input: u32::from(input),
            max_attempts: 2,
            wait: SECOND,
            max_interruptions: 1,
            trigger: Trigger::Api,
        },
        delay: None,
    });
    // The ends of a queue are where moves and new jobs meet.
    let end = prop_oneof![2 => Just(63usize), 1 => Just(0), 2 => pick()];
    let beside = prop_oneof![Just(Direction::Before), Just(Direction::After)];
    prop_oneof![
        4 => proptest::collection::vec(job, 1..3).prop_map(Op::Enqueue),
        6 => (pick(), end, beside).prop_map(|(job, other, to)| Op::Move(job, other, to)),
        3 => (pick(), pick(), direction()).prop_map(|(job, other, to)| Op::Move(job, other, to)),
        3 => working(),
        2 => queueing(),
        1 => Just(Op::Pass(SECOND)),
    ]
    .boxed()
}

/// A step of busy schedules: little else than time, decisions and ends.
fn scheduling() -> BoxedStrategy<Op> {
    prop_oneof![
        3 => steering(),
        4 => passing().prop_map(Op::Pass),
        5 => Just(Op::Fire),
        1 => Just(Op::Register),
        2 => (pick(), 0..2usize, 1..5usize).prop_map(|(node, queue, limit)| Op::Claim(node, queue, limit)),
        3 => (pick(), ending()).prop_map(|(job, ending)| Op::Finish(job, ending)),
        1 => Just(Op::Reconcile),
    ]
    .boxed()
}

/// A history of at most so many steps: of everything, of a crowded queue, or of busy schedules.
pub fn history(steps: usize) -> BoxedStrategy<Vec<Op>> {
    let of = |step: BoxedStrategy<Op>| proptest::collection::vec(step, steps / 4..steps);
    prop_oneof![2 => of(op()), 1 => of(crowding()), 1 => of(scheduling())].boxed()
}

/// One step of everything.
fn op() -> BoxedStrategy<Op> {
    prop_oneof![
        40 => plain(),
        3 => plain().prop_map(|op| Op::Refused(Box::new(op))),
        1 => (0..1200i64).prop_map(Op::Prune),
        1 => Just(Op::Reconcile),
        1 => Just(Op::Reopen),
    ]
    .boxed()
}
