//! Why a job does not start, in words: the question that operators ask of a queue.

use crate::problem::Answered;
use crate::state::AppState;
use punctual_core::job::{JobView, NewJob, Whereabouts};
use punctual_core::limits::{LimitRow, LimitSubject};

/// What a job waits for; `None` when it does not wait, or only for its turn.
pub(crate) async fn reason(state: &AppState, view: &JobView) -> Answered<Option<String>> {
    let spec = &view.job.spec;
    match &view.whereabouts {
        Whereabouts::Delayed { run_at: None } => Ok(Some("the end of the job before it".to_owned())),
        Whereabouts::Queued { ready, .. } => {
            if !ready && let Some(key) = &spec.serial_key {
                return serial_key(state, key).await.map(Some);
            }
            if let Some(queue) = queue(state, &spec.queue).await? {
                return Ok(Some(queue));
            }
            if let Some(full) = limits(state, spec).await? {
                return Ok(Some(full));
            }
            node(state, &spec.target.job_type()).await
        }
        // What waits for its time says so itself.
        Whereabouts::Delayed { run_at: Some(_) } | Whereabouts::Running(_) | Whereabouts::Closed(_) => Ok(None),
    }
}

async fn serial_key(state: &AppState, key: &str) -> Answered<String> {
    Ok(match state.store.serial_hold(key).await? {
        None => format!("another job of the serial key `{key}` runs or comes first"),
        Some(hold) => format!(
            "the serial key `{key}` is held since {}, because the job {} failed; retry that job, or release the key",
            hold.held_at, hold.job_id
        ),
    })
}

async fn queue(state: &AppState, name: &str) -> Answered<Option<String>> {
    let Some(queue) = state.store.queue(name).await? else { return Ok(None) };
    if queue.paused {
        return Ok(Some(format!("the queue `{name}` is paused; resume it")));
    }
    let held = |by: punctual_core::store::Reservation| {
        format!("the queue `{name}` is reserved by {} until {}", by.holder, by.expires_at)
    };
    Ok(queue.reservation.map(held))
}

/// The first limit that keeps the job back, of the few that count it.
async fn limits(state: &AppState, spec: &NewJob) -> Answered<Option<String>> {
    let own = [LimitSubject::All, LimitSubject::Queue(spec.queue.clone()), LimitSubject::Type(spec.target.job_type())];
    for subject in own.into_iter().chain(spec.tags.iter().cloned().map(LimitSubject::Tag)) {
        if let Some(full) = state.store.limit(&subject).await?.as_ref().and_then(full) {
            return Ok(Some(full));
        }
    }
    Ok(None)
}

/// In which way a limit is full.
fn full(row: &LimitRow) -> Option<String> {
    let (limit, running) = (&row.limit, row.running);
    let subject = &limit.subject;
    if let Some(most) = limit.concurrency.filter(|most| running >= u64::from(*most)) {
        return Some(format!("the limit `{subject}` is full: {running} run, and {most} may at once"));
    }
    let rate = limit.rate.filter(|_| row.tokens == Some(0))?;
    let per = punctual_core::duration::format_duration(rate.per);
    Some(format!("the limit `{subject}` lets {} start in {per}, and they have", rate.jobs))
}

async fn node(state: &AppState, job_type: &str) -> Answered<Option<String>> {
    let offered = state.store.node_pulses().await?.iter().any(|node| node.offers.iter().any(|offer| offer == job_type));
    let how = match job_type {
        "graph" => "; start a worker with --internal-api-url",
        _ => "",
    };
    Ok((!offered).then(|| format!("a node that runs `{job_type}`; none of those that live does{how}")))
}
