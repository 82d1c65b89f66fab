//! Calendars: named days and times at which nothing may run. They are shared: every schedule may name one.

use super::schedules::{check_match, visible};
use super::words::{ClosedDayDocument, ClosedWeekdayWord};
use super::{Page, Paging};
use crate::auth::Caller;
use crate::change::{Action, Ask, Made, Told, etag};
use crate::cursor::{self, List};
use crate::extract::{Asked, Named, Sent, page_size};
use crate::problem::{Answered, Problem};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_core::calendar::{CalendarRules, ClosedDay, ClosedWeekday, StoredCalendar, Window};
use punctual_core::name::Name;
use punctual_core::store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A calendar that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCalendar, example = json!({
    "name": "holidays", "timezone": "Europe/Berlin", "weekdays": ["sunday"],
    "days": [{ "on": "12-25", "note": "Christmas" }, { "on": "2026-04-06" }],
    "windows": [{ "from": "2026-12-31T20:00:00Z", "until": "2027-01-01T06:00:00Z", "note": "freeze" }] }))]
pub(crate) struct NewCalendarBody {
    /// What schedules call it.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    description: Option<String>,
    /// In which its days begin and end; `UTC` unless said otherwise.
    timezone: Option<String>,
    /// Whole days.
    #[schema(value_type = Option<Vec<ClosedDayDocument>>)]
    days: Option<Vec<ClosedDay>>,
    /// The same days of every week.
    #[schema(value_type = Option<Vec<ClosedWeekdayWord>>)]
    weekdays: Option<Vec<ClosedWeekday>>,
    /// Stretches of time.
    windows: Option<Vec<WindowBody>>,
}

/// A stretch of time at which nothing may run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Window)]
pub(crate) struct WindowBody {
    from: Timestamp,
    /// Not one of them.
    until: Timestamp,
    /// What it is, for people.
    note: Option<String>,
}

/// What a calendar is to say instead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CalendarPatch)]
pub(crate) struct CalendarPatch {
    description: Option<String>,
    timezone: Option<String>,
    #[schema(value_type = Option<Vec<ClosedDayDocument>>)]
    days: Option<Vec<ClosedDay>>,
    #[schema(value_type = Option<Vec<ClosedWeekdayWord>>)]
    weekdays: Option<Vec<ClosedWeekday>>,
    windows: Option<Vec<WindowBody>>,
}

impl NewCalendarBody {
    /// What it says, apart from its name.
    pub(crate) fn into_rules(self) -> (String, CalendarRules) {
        let Self { name: _, description, timezone, days, weekdays, windows } = self;
        let said = CalendarPatch { description, timezone, days, weekdays, windows };
        said.over(String::new(), CalendarRules::default())
    }
}

impl CalendarPatch {
    /// What was said before, with this put over it.
    fn over(self, description: String, was: CalendarRules) -> (String, CalendarRules) {
        let window = |WindowBody { from, until, note }| Window { from, until, note };
        let rules = CalendarRules {
            timezone: self.timezone.unwrap_or(was.timezone),
            days: self.days.unwrap_or(was.days),
            weekdays: self.weekdays.unwrap_or(was.weekdays),
            windows: self.windows.map_or(was.windows, |windows| windows.into_iter().map(window).collect()),
        };
        (self.description.unwrap_or(description), rules)
    }
}

/// A calendar.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Calendar)]
pub(crate) struct CalendarBody {
    name: String,
    description: String,
    timezone: String,
    #[schema(value_type = Vec<ClosedDayDocument>)]
    days: Vec<ClosedDay>,
    #[schema(value_type = Vec<ClosedWeekdayWord>)]
    weekdays: Vec<ClosedWeekday>,
    windows: Vec<WindowBody>,
    /// Rises with every edit; also the `ETag`.
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&StoredCalendar> for CalendarBody {
    fn from(calendar: &StoredCalendar) -> Self {
        let StoredCalendar { name, description, rules, version, created_at, updated_at } = calendar.clone();
        let windows = rules.windows.into_iter().map(|Window { from, until, note }| WindowBody { from, until, note });
        Self {
            name: name.to_string(),
            description,
            timezone: rules.timezone,
            days: rules.days,
            weekdays: rules.weekdays,
            windows: windows.collect(),
            version,
            created_at,
            updated_at,
        }
    }
}

fn tell(calendar: &StoredCalendar) -> Told {
    Told::new(format!("calendar:{}", calendar.name), &CalendarBody::from(calendar))
}

fn shown(calendar: &StoredCalendar) -> Response {
    ([(header::ETAG, etag(calendar.version))], Json(CalendarBody::from(calendar))).into_response()
}

async fn existing(state: &AppState, name: &str) -> Answered<StoredCalendar> {
    let none = || Problem::not_found("calendar", name);
    if name.contains('\0') {
        return Err(none());
    }
    state.store.calendar(name).await?.ok_or_else(none)
}

/// Make a calendar.
#[utoipa::path(post, path = "/calendars", tag = "calendars", request_body = NewCalendarBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Done once for each key; 24 h.")),
    responses((status = 201, description = "schedules can name it", body = CalendarBody)))]
pub(crate) async fn create(ask: Ask, sent: Sent<NewCalendarBody>) -> Answered<Made> {
    let name = Name::new(sent.value.name.clone())?;
    let (description, rules) = sent.value.into_rules();
    rules.validate()?;
    let made = ask.create(sent.fingerprint, Action::new("calendar.create"), tell, |store| async move {
        store.create_calendar(name, description, rules).await
    });
    Ok(made.await?.tagged(1))
}

/// List calendars, in order of name.
#[utoipa::path(get, path = "/calendars", tag = "calendars", params(Paging),
    responses((status = 200, description = "one page", body = Page<CalendarBody>)))]
pub(crate) async fn list(
    State(state): State<AppState>, Asked(asked): Asked<Paging>,
) -> Answered<Json<Page<CalendarBody>>> {
    let after: Option<String> = cursor::read(List::Calendars, asked.cursor.as_deref())?;
    let limit = page_size(asked.limit)?;
    let rows = state.store.calendars(after.as_deref(), limit + 1).await?;
    Ok(Json(Page::of_rows(rows, limit, List::Calendars, |row| row.name.to_string(), |row| (&row).into())))
}

/// Look at one calendar.
#[utoipa::path(get, path = "/calendars/{name}", tag = "calendars", params(("name" = String, Path)),
    responses((status = 200, description = "the calendar; its ETag is its version", body = CalendarBody)))]
pub(crate) async fn get(State(state): State<AppState>, Named(name): Named) -> Answered<Response> {
    Ok(shown(&existing(&state, &name).await?))
}

/// Edit a calendar: what is sent replaces what was, the rest stays. It holds for the slots that are decided from then on.
#[utoipa::path(patch, path = "/calendars/{name}", tag = "calendars",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    request_body = CalendarPatch,
    responses((status = 200, description = "the calendar as it is now", body = CalendarBody)))]
pub(crate) async fn patch(
    ask: Ask, Named(name): Named, headers: HeaderMap, sent: Sent<CalendarPatch>,
) -> Answered<Response> {
    let old = existing(&ask.state, &name).await?;
    check_match(&headers, old.version)?;
    let (description, rules) = sent.value.over(old.description.clone(), old.rules.clone());
    rules.validate()?;
    let action = Action::new("calendar.update").before(&CalendarBody::from(&old));
    let now = ask.change(action, tell, |store| async move {
        store.update_calendar_if_version(old.name.as_str(), old.version, description, rules).await
    });
    Ok(shown(&now.await?))
}

/// Delete a calendar that no schedule names.
#[utoipa::path(delete, path = "/calendars/{name}", tag = "calendars",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag that was read; another one is refused with 412.")),
    responses((status = 204, description = "it is gone")))]
pub(crate) async fn delete(ask: Ask, Named(name): Named, headers: HeaderMap) -> Answered<StatusCode> {
    let old = existing(&ask.state, &name).await?;
    check_match(&headers, old.version)?;
    let action = Action::new("calendar.delete").before(&CalendarBody::from(&old));
    let subject = format!("calendar:{name}");
    let tell = move |(): &()| Told::new(subject.clone(), &());
    let key = name.clone();
    let deleted = ask.try_change(action, tell, |store| async move { store.delete_calendar(&key).await });
    match deleted.await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(StoreError::InUse { by, .. }) => Err(in_use(&ask.state, &ask.caller, &name, by).await),
        Err(error) => Err(error.into()),
    }
}

/// Who uses a calendar, as far as the caller may know.
async fn in_use(state: &AppState, caller: &Caller, name: &str, users: Vec<String>) -> Problem {
    let (mut seen, mut others) = (Vec::new(), 0);
    for user in users {
        match visible(state, caller, &user).await {
            Ok(_) => seen.push(format!("`{user}`")),
            Err(_) => others += 1,
        }
    }
    if others > 0 {
        seen.push("schedules of other owners".to_owned());
    }
    let told = format!("the calendar `{name}` is in use by {}", seen.join(", "));
    Problem::new(StatusCode::CONFLICT, "in_use", told)
        .remedy("take it from these schedules first: PATCH each with \"calendar\": null, or delete it")
}
