//! Carrying a graph run to its end, and waiting for one that somebody else carries.
//!
//! The work goes on when the caller goes away: only the next one asks for what became of it. Whoever drives beats in the
//! store; when the beats stand still on the clock of somebody who waits, he takes over under the same run id, and the
//! provider joins the two.

use super::RunAnswer;
use crate::change::text_of;
use crate::problem::Answered;
use crate::state::AppState;
use punctual_core::closing::storable_text;
use punctual_core::execution::Execution;
use punctual_core::graph::{GraphEnd, Unknown};
use punctual_core::id::{DriverId, GraphRunId};
use punctual_core::json::JSON_MAX_BYTES;
use punctual_core::run::ErrorCode;
use punctual_core::store::{StoreError, StoreResult};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};
use uuid::Uuid;

/// How long somebody who waits for another process sleeps at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// How long an unreachable store is left alone.
const SETBACK: Duration = Duration::from_millis(250);

/// The most references that are kept of a run, and the longest of them, in characters.
const REFERENCES_MAX: (usize, usize) = (32, 500);

/// What came of asking.
pub(crate) enum Found {
    Answer(String),
    /// The provider could not be reached, or this server is about to stop: asking again is right.
    Unknown,
}

/// The runs that this process carries.
pub(crate) struct Drives {
    id: DriverId,
    under_way: Arc<Mutex<HashMap<GraphRunId, watch::Receiver<()>>>>,
}

impl Default for Drives {
    fn default() -> Self {
        Self { id: DriverId(Uuid::new_v4()), under_way: Arc::default() }
    }
}

impl Drives {
    /// By which name this process drives.
    pub(crate) fn id(&self) -> DriverId {
        self.id
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GraphRunId, watch::Receiver<()>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line that closes when a run of this process is over.
    fn of(&self, run: GraphRunId) -> Option<watch::Receiver<()>> {
        self.lock().get(&run).cloned()
    }

    /// Writes down that a run is under way, until the guard is dropped.
    fn begin(&self, run: GraphRunId) -> UnderWay {
        let (line, end) = watch::channel(());
        self.lock().insert(run, end);
        UnderWay { run, runs: Arc::clone(&self.under_way), _line: line }
    }
}

/// A run that this process carries. Whoever waits for it hears when this is dropped, also by a panic.
struct UnderWay {
    run: GraphRunId,
    runs: Arc<Mutex<HashMap<GraphRunId, watch::Receiver<()>>>>,
    _line: watch::Sender<()>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
}

/// Carries a run to its end that is ours, and waits for it.
pub(crate) async fn carry_out(state: &AppState, mine: Execution) -> Answered<Found> {
    let seen = mine.clone();
    begin(state, mine);
    wait(state, seen).await
}

/// Waits for a run; one that is nobody's is taken over at once.
pub(crate) async fn wait_for(state: &AppState, there: Execution) -> Answered<Found> {
    if there.answer.is_none() && there.driver.is_none() {
        let taken = state.store.take_over_execution_if_still(&there, state.shared.drives.id()).await?;
        if let Some(mine) = taken {
            return carry_out(state, mine).await;
        }
        // Somebody was quicker: he is the one to wait for.
        return match state.store.execution(&there.key).await? {
            Some(now) => wait(state, now).await,
            None => Ok(Found::Unknown),
        };
    }
    wait(state, there).await
}

async fn wait(state: &AppState, mut seen: Execution) -> Answered<Found> {
    let (mut since, mut pause) = (Instant::now(), LOOKS.0);
    let mut draining = state.draining();
    loop {
        if let Some(answer) = seen.answer {
            return Ok(Found::Answer(answer));
        }
        if seen.driver.is_none() || *draining.borrow() {
            return Ok(Found::Unknown);
        }
        let next_look = async {
            match state.shared.drives.of(seen.run_id) {
                // Ours: its end is heard.
                Some(mut end) => drop(timeout(LOOKS.1 * 4, end.changed()).await),
                None => sleep(pause).await,
            }
        };
        tokio::select! {
            () = next_look => {}
            _ = draining.changed() => {}
        }
        pause = (pause * 2).min(LOOKS.1);
        let Some(now) = state.store.execution(&seen.key).await? else { return Ok(Found::Unknown) };
        if (now.driver, now.beats) != (seen.driver, seen.beats) {
            since = Instant::now();
        } else if since.elapsed() >= state.shared.settings.execution_lease && now.answer.is_none() {
            tracing::warn!(run = %now.run_id, "the driver of a graph run is gone; it is taken over");
            if let Some(mine) = state.store.take_over_execution_if_still(&now, state.shared.drives.id()).await? {
                begin(state, mine.clone());
                seen = mine;
                since = Instant::now();
                continue;
            }
        }
        seen = now;
    }
}

/// Begins to carry a run, beside whoever asked for it.
fn begin(state: &AppState, mine: Execution) {
    let (under_way, state) = (state.shared.drives.begin(mine.run_id), state.clone());
    tokio::spawn(async move {
        drive(&state, &mine).await;
        drop(under_way);
    });
}

async fn drive(state: &AppState, mine: &Execution) {
    let driver = state.shared.drives.id();
    let mut draining = state.draining();
    let end = tokio::select! {
        end = run_graph(state, mine) => end,
        () = lost(state, mine.run_id, driver) => {
            tracing::warn!(run = %mine.run_id, "somebody else has taken a graph run over");
            return;
        }
        _ = draining.wait_for(|draining| *draining) => Err(Unknown("this server stops".to_owned())),
    };
    let kept = match end {
        Ok(end) => keep(state, mine, driver, fit(end)).await,
        Err(unknown) => {
            tracing::warn!(run = %mine.run_id, graph = %mine.graph, "{unknown}");
            persist(|| state.store.release_execution(mine.run_id, driver)).await
        }
    };
    if let Err(error) = kept {
        tracing::error!(run = %mine.run_id, "the end of a graph run could not be stored: {error}");
    }
}

async fn run_graph(state: &AppState, mine: &Execution) -> Result<GraphEnd, Unknown> {
    match state.shared.graphs.of(&mine.graph) {
        Some(provider) => provider.run_graph(mine.graph_run()).await,
        None => Err(Unknown(format!("this server has no provider `{}:`", mine.graph.provider()))),
    }
}

/// Beats until somebody else is the driver.
async fn lost(state: &AppState, run: GraphRunId, driver: DriverId) {
    let mut beats = interval(state.shared.settings.execution_lease / 5);
    loop {
        beats.tick().await;
        // A store that is out of reach says nothing about who drives.
        if let Ok(false) = state.store.beat_execution(run, driver).await {
            return;
        }
    }
}

async fn keep(state: &AppState, mine: &Execution, driver: DriverId, end: GraphEnd) -> StoreResult<()> {
    let answer = text_of(&RunAnswer::of_end(mine, &end));
    let mine_still = persist(|| state.store.end_execution_if_driven(mine.run_id, driver, end.clone(), answer.clone()));
    if !mine_still.await? {
        tracing::warn!(run = %mine.run_id, "the end of a graph run came too late; another driver has it");
    }
    Ok(())
}

/// Does what must be written, however long the store is out of reach: what a graph did cannot be done again.
async fn persist<T, V: Future<Output = StoreResult<T>>>(verb: impl Fn() -> V) -> StoreResult<T> {
    loop {
        match verb().await {
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_))) => {
                tracing::warn!("the end of a graph run waits for the store: {error}");
                sleep(SETBACK).await;
            }
            done => return done,
        }
    }
}

/// An end that the stores can keep, whatever the provider says.
fn fit(mut end: GraphEnd) -> GraphEnd {
    if let Some(output) = end.output.take_if(|output| output.check("output").is_err()) {
        let code = match output.as_str().len() {
            0..=JSON_MAX_BYTES => ErrorCode::BadOutput,
            _ => ErrorCode::OutputTooLarge,
        };
        let words = "the graph returned what cannot be kept: it is too large, or holds NUL".to_owned();
        end.failure = end.failure.or(Some((code, words)));
    }
    let short = |text: &str| storable_text(text).chars().take(REFERENCES_MAX.1).collect::<String>();
    end.references =
        end.references.iter().take(REFERENCES_MAX.0).map(|(name, value)| (short(name), short(value))).collect();
    end.failure = end.failure.map(|(code, words)| (code, storable_text(&words)));
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::json::Json;

    #[test]
    fn a14_what_a_provider_says_is_made_fit_to_be_kept() {
        let end = |output: &str| GraphEnd {
            failure: None,
            output: Some(Json::from_stored(output.to_owned()).unwrap()),
            references: [("thread\0".to_owned(), "x".repeat(1000))].into(),
            used: Vec::new(),
        };
        let good = fit(end("{\"a\":1}"));
        assert_eq!((good.failure, good.output.is_some()), (None, true));
        assert_eq!(good.references, [("thread\u{fffd}".to_owned(), "x".repeat(500))].into());
        let nul = fit(end("\"a\\u0000\""));
        assert_eq!((nul.failure.unwrap().0, nul.output), (ErrorCode::BadOutput, None));
        let large = fit(end(&format!("\"{}\"", "x".repeat(JSON_MAX_BYTES))));
        assert_eq!(large.failure.unwrap().0, ErrorCode::OutputTooLarge);
    }
}
