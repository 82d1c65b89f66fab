//! Figures over time: how runs ended, how long they waited and took, in buckets of one length.
//!
//! Buckets that are over do not change. They are kept, so that whoever asks every few seconds costs the store no more
//! than the runs of the last bucket or two.

use crate::extract::{Asked, window};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use punctual_core::duration;
use punctual_core::run::Outcome;
use punctual_core::series::{BUCKETS_MAX, SeriesBucket, SeriesPlan};
use punctual_core::store::{Store, StoreResult};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Mutex as AsyncMutex;
use utoipa::{IntoParams, ToSchema};

/// How long after its end a bucket may still grow: an end is stored when its transaction is, which began earlier.
const SETTLES_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// How many buckets are read at once, so that a long time that nobody has asked for yet is not one long read.
const READ_AT_ONCE: usize = 12;

/// The buckets of one length that are over, by when they begin.
type Kept = BTreeMap<Timestamp, SeriesBucket>;

/// What is kept of the past, for each length of bucket; there are as many lengths as plans know.
#[derive(Debug, Default)]
pub(crate) struct SeriesCache(Mutex<HashMap<SignedDuration, Arc<AsyncMutex<Kept>>>>);

impl SeriesCache {
    fn of_step(&self, step: SignedDuration) -> Arc<AsyncMutex<Kept>> {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(steps.entry(step).or_default())
    }

    /// All buckets of a plan, those in which nothing ended among them. Who asks for the same at the same time waits, and
    /// finds what the other has read.
    async fn read(&self, store: &dyn Store, plan: &SeriesPlan) -> StoreResult<Vec<SeriesBucket>> {
        let kept = self.of_step(plan.step);
        let mut kept = kept.lock().await;
        let settled = plan.until.saturating_sub(SETTLES_AFTER).unwrap_or(Timestamp::MIN);
        let end = |at: Timestamp| at.saturating_add(plan.step).unwrap_or(Timestamp::MAX);
        // A clock that was put back makes some of the past the future again.
        kept.retain(|at, _| end(*at) <= settled);
        let begins: Vec<Timestamp> = plan.begins().collect();
        let unknown: Vec<Timestamp> = begins.iter().copied().filter(|at| !kept.contains_key(at)).collect();
        let mut open = Kept::new();
        for stretch in neighbours(&unknown, plan.step) {
            let Some((first, last)) = stretch.first().zip(stretch.last()) else { continue };
            let found = store.run_series(*first, end(*last), plan.step).await?;
            let mut read: Kept = stretch.iter().map(|at| (*at, SeriesBucket::empty(*at))).collect();
            read.extend(found.into_iter().map(|bucket| (bucket.at, bucket)));
            let (over, growing) = read.into_iter().partition::<Kept, _>(|(at, _)| end(*at) <= settled);
            kept.extend(over);
            open.extend(growing);
        }
        let find = |at: &Timestamp| kept.get(at).or_else(|| open.get(at)).cloned();
        let all = begins.iter().filter_map(find).collect();
        while kept.len() > 2 * BUCKETS_MAX {
            kept.pop_first();
        }
        Ok(all)
    }
}

/// Buckets that follow each other, in stretches that are not too long.
fn neighbours(begins: &[Timestamp], step: SignedDuration) -> Vec<&[Timestamp]> {
    let together = |a: &Timestamp, b: &Timestamp| b.duration_since(*a) == step;
    begins.chunk_by(together).flat_map(|stretch| stretch.chunks(READ_AT_ONCE)).collect()
}

/// How far back.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SeriesAsked {
    /// From `5m` to `31d`; `1h` unless said otherwise.
    #[param(example = "24h")]
    window: Option<String>,
}

/// Figures over time. There is a bucket for every step, whether something ended in it or not.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Series)]
pub(crate) struct SeriesBody {
    /// When the first bucket begins.
    since: Timestamp,
    /// Now; the last bucket is not over.
    until: Timestamp,
    /// How long a bucket is, such as `20m`; chosen by the server so that there are 60 to 170 of them.
    #[serde(with = "duration::text")]
    #[schema(value_type = String)]
    step: SignedDuration,
    buckets: Vec<SeriesBucketBody>,
}

/// The runs that ended within one step, retries counted each. Percentiles are lengths that were measured (nearest rank),
/// and null when no run of the bucket had begun.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SeriesBucket)]
pub(crate) struct SeriesBucketBody {
    /// When it begins.
    at: Timestamp,
    completed: u64,
    failed: u64,
    skipped: u64,
    cancelled: u64,
    /// From when a job could begin (it was made, or its `run_at` came) until a node had claimed it.
    queue_time_p50_ms: Option<f64>,
    queue_time_p95_ms: Option<f64>,
    /// From the beginning of a run to its end.
    duration_p50_ms: Option<f64>,
    duration_p95_ms: Option<f64>,
}

impl From<SeriesBucket> for SeriesBucketBody {
    fn from(bucket: SeriesBucket) -> Self {
        let ended = |outcome| bucket.ended.get(&outcome).copied().unwrap_or(0);
        let ms = |length: SignedDuration| length.as_secs_f64() * 1000.0;
        Self {
            at: bucket.at,
            completed: ended(Outcome::Completed),
            failed: ended(Outcome::Failed),
            skipped: ended(Outcome::Skipped),
            cancelled: ended(Outcome::Cancelled),
            queue_time_p50_ms: bucket.queue_time.map(|spread| ms(spread.p50)),
            queue_time_p95_ms: bucket.queue_time.map(|spread| ms(spread.p95)),
            duration_p50_ms: bucket.duration.map(|spread| ms(spread.p50)),
            duration_p95_ms: bucket.duration.map(|spread| ms(spread.p95)),
        }
    }
}

/// Figures of the whole over time: how runs ended, how long they waited and took.
#[utoipa::path(get, path = "/stats/series", tag = "system", params(SeriesAsked),
    responses((status = 200, description = "the buckets, earliest first", body = SeriesBody)))]
pub(crate) async fn series(
    State(state): State<AppState>, Asked(asked): Asked<SeriesAsked>,
) -> Answered<Json<SeriesBody>> {
    let window = window(asked.window.as_deref(), SignedDuration::from_hours(1))?;
    let plan = SeriesPlan::of(window, state.store.now().await?).map_err(|refused| {
        Problem::new(StatusCode::BAD_REQUEST, "bad_query", refused.to_string())
            .remedy("ask for 1h, 24h or 7d, for example")
            .at("window")
    })?;
    let buckets = state.shared.series.read(state.store.as_ref(), &plan).await?;
    let buckets = buckets.into_iter().map(Into::into).collect();
    Ok(Json(SeriesBody { since: plan.since, until: plan.until, step: plan.step, buckets }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d12_what_is_unknown_is_read_in_stretches_without_a_gap() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let begins: Vec<Timestamp> = [0, 5, 10, 30, 35].map(at).into();
        let step = SignedDuration::from_secs(5);
        assert_eq!(neighbours(&begins, step), [&begins[..3], &begins[3..]]);
        let many: Vec<Timestamp> = (0..30).map(|place| at(place * 5)).collect();
        let lengths: Vec<usize> = neighbours(&many, step).iter().map(|stretch| stretch.len()).collect();
        assert_eq!(lengths, [12, 12, 6]);
        assert!(neighbours(&[], step).is_empty());
    }
}
