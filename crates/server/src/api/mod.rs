//! The resources of the API, and how they are put together.

pub(crate) mod alerts;
pub(crate) mod backfills;
pub(crate) mod billing;
pub(crate) mod bulks;
pub(crate) mod calendars;
pub(crate) mod channels;
pub(crate) mod cron;
pub(crate) mod deliveries;
pub(crate) mod doctor;
pub(crate) mod flows;
pub(crate) mod grants;
pub(crate) mod graphs;
pub(crate) mod installation;
pub(crate) mod job_shapes;
pub(crate) mod jobs;
pub(crate) mod limits;
pub(crate) mod manifests;
pub(crate) mod plans;
pub(crate) mod queues;
pub(crate) mod rules;
pub(crate) mod schedule_shapes;
pub(crate) mod schedules;
pub(crate) mod serial_keys;
pub(crate) mod series;
pub(crate) mod slot_days;
pub(crate) mod statistics;
pub(crate) mod steering;
pub(crate) mod system;
pub(crate) mod templates;
pub(crate) mod tokens;
mod waiting;
pub(crate) mod why;
pub(crate) mod words;

use crate::cursor::{self, List};
use crate::state::AppState;
use crate::{auth, docs, events, problem};
use axum::routing::get;
use axum::{Router, middleware};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    /// What to send as `cursor` for the next page; null at the end. A page may be short, or empty, and still have one.
    next_cursor: Option<String>,
}

impl<T> Page<T> {
    fn new(items: Vec<T>, list: List, next: Option<&impl Display>) -> Self {
        Self { items, next_cursor: next.map(|key| cursor::write(list, key)) }
    }

    /// A page from one row more than it holds.
    fn of_rows<R>(
        mut rows: Vec<R>, limit: usize, list: List, key: impl Fn(&R) -> String, shape: impl FnMut(R) -> T,
    ) -> Self {
        let next = if rows.len() > limit {
            rows.truncate(limit);
            rows.last().map(key)
        } else {
            None
        };
        Self::new(rows.into_iter().map(shape).collect(), list, next.as_ref())
    }
}

/// Where in a list, and how much of it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// How many, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// What needs a token.
fn guarded() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(auth::who_am_i, auth::log_out))
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::get, schedules::patch, schedules::delete))
        .routes(routes!(steering::pause))
        .routes(routes!(steering::resume))
        .routes(routes!(steering::trigger))
        .routes(routes!(steering::reschedule))
        .routes(routes!(steering::skip_next))
        .routes(routes!(plans::runs))
        .routes(routes!(plans::slots))
        .routes(routes!(slot_days::slot_days))
        .routes(routes!(plans::upcoming))
        .routes(routes!(why::why))
        .routes(routes!(statistics::of_schedule))
        .routes(routes!(backfills::create))
        .routes(routes!(backfills::list))
        .routes(routes!(backfills::get))
        .routes(routes!(backfills::cancel))
        .routes(routes!(cron::preview))
        .routes(routes!(cron::presets, cron::create_preset))
        .routes(routes!(cron::delete_preset))
        .routes(routes!(calendars::create, calendars::list))
        .routes(routes!(calendars::get, calendars::patch, calendars::delete))
        .routes(routes!(jobs::create, jobs::list))
        .routes(routes!(jobs::create_batch))
        .routes(routes!(bulks::create))
        .routes(routes!(bulks::list))
        .routes(routes!(bulks::get))
        .routes(routes!(bulks::cancel))
        .routes(routes!(jobs::get, jobs::edit))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::chain_end))
        .routes(routes!(flows::list))
        .routes(routes!(flows::get, flows::put, flows::delete))
        .routes(routes!(flows::steps))
        .routes(routes!(flows::items))
        .routes(routes!(jobs::move_to))
        .routes(routes!(jobs::logs))
        .routes(routes!(jobs::artifacts))
        .routes(routes!(jobs::artifact))
        .routes(routes!(jobs::list_runs))
        .routes(routes!(jobs::get_run))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get, queues::patch))
        .routes(routes!(queues::jobs))
        .routes(routes!(queues::reserve))
        .routes(routes!(queues::release))
        .routes(routes!(queues::renew))
        .routes(routes!(serial_keys::list))
        .routes(routes!(serial_keys::release))
        .routes(routes!(limits::list))
        .routes(routes!(limits::get, limits::put, limits::remove))
        .routes(routes!(templates::create, templates::list))
        .routes(routes!(templates::get, templates::delete))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke))
        .routes(routes!(manifests::export))
        .routes(routes!(manifests::plan))
        .routes(routes!(manifests::apply))
        .merge(granted())
        .merge(telling())
        .routes(routes!(installation::get, installation::patch))
        .routes(routes!(system::nodes))
        .routes(routes!(system::stats))
        .routes(routes!(series::series))
        .routes(routes!(system::audit))
        .routes(routes!(doctor::doctor))
        .routes(routes!(events::stream))
}

/// The part of it that is about graphs: permission, runs and what they cost.
fn granted() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(grants::create, grants::list))
        .routes(routes!(grants::get))
        .routes(routes!(grants::revoke))
        .routes(routes!(graphs::list))
        .routes(routes!(graphs::run))
        .routes(routes!(billing::create, billing::list))
        .routes(routes!(billing::usage))
}

/// The part of it that is about telling people.
fn telling() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(channels::create, channels::list))
        .routes(routes!(channels::get, channels::patch, channels::delete))
        .routes(routes!(channels::test))
        .routes(routes!(rules::create, rules::list))
        .routes(routes!(rules::get, rules::patch, rules::delete))
        .routes(routes!(alerts::list))
        .routes(routes!(alerts::get))
        .routes(routes!(alerts::acknowledge))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::get))
        .routes(routes!(deliveries::resend))
        .routes(routes!(deliveries::take_out))
}

/// What needs none.
fn open() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(auth::log_in))
}

/// The router of `/api/v1`.
pub(crate) fn routes(state: &AppState) -> Router {
    let (open, _) = open().split_for_parts();
    let (guarded, _) = guarded().split_for_parts();
    let guarded = guarded
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(middleware::from_fn_with_state(state.clone(), auth::authenticate));
    let root = Router::new().route("/", get(docs::api_root)).method_not_allowed_fallback(problem::no_such_method);
    guarded.merge(open).merge(root).with_state(state.clone())
}

/// What the code says about itself.
pub(crate) fn described() -> OpenApi {
    let (_, mut document) = guarded().split_for_parts();
    document.merge(open().split_for_parts().1);
    document
}
