//! The page behind the link in a message: whoever has the link may acknowledge, without an account.
//!
//! Looking changes nothing, because mail scanners and previews of chats follow links; the button does.

use crate::api::alerts::{state_of, tell, title_of};
use crate::auth::{Address, Caller};
use crate::change::{Action, Ask};
use crate::extract::Named;
use crate::guard::RequestId;
use crate::problem::Answered;
use crate::state::AppState;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use punctual_core::notify::alert::Alert;
use punctual_core::notify::wording::{in_html, one_line};

const STYLE: &str = include_str!("../assets/acknowledge.css");

/// The style and the form, and nothing else at all. The address holds the code, so that no other site may learn it; to
/// this one a browser must say where it comes from, or the change would look like another site's.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/acknowledge/style.css", get(|| async { ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE) }))
        .route("/acknowledge/{code}", get(look).post(acknowledge))
}

async fn found(state: &AppState, from: &Address, code: &str) -> Answered<Option<Alert>> {
    from.0.map_or(Ok(()), |from| state.shared.limits.stranger(from))?;
    let sound = (16..=64).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if sound { Ok(state.store.alert_by_code(code).await?) } else { Ok(None) }
}

async fn look(State(state): State<AppState>, from: Address, Named(code): Named) -> Answered<Response> {
    Ok(match found(&state, &from, &code).await? {
        Some(alert) => about(&alert),
        None => unknown(),
    })
}

async fn acknowledge(
    State(state): State<AppState>, from: Address, Extension(request): Extension<RequestId>, Named(code): Named,
) -> Answered<Response> {
    let Some(alert) = found(&state, &from, &code).await? else { return Ok(unknown()) };
    let ask = Ask::of(state, Caller::by_link(), request);
    let action = Action::new("alert.acknowledge");
    let now = ask.change(action, tell, |store| async move { store.acknowledge_alert(alert.id, None, None).await });
    Ok(about(&now.await?))
}

fn about(alert: &Alert) -> Response {
    let began = alert.opened_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    let state = match (state_of(alert), &alert.acknowledged) {
        ("closed" | "recovered", _) => "<p>This is over; there is nothing to do.</p>".to_owned(),
        (_, Some(acknowledged)) => {
            let at = acknowledged.at.strftime("%Y-%m-%d %H:%M:%S UTC");
            let by = acknowledged.by.as_deref().map(|by| format!(" by {}", escaped(by))).unwrap_or_default();
            format!("<p>Acknowledged{by} at {at}. Nobody else is told.</p>")
        }
        _ => "<p>Nobody has acknowledged it yet. Whoever does takes care of it, and nobody else is told.</p>\n\
              <form method=\"post\"><button>Acknowledge</button></form>"
            .to_owned(),
    };
    let rule = escaped(alert.rule.as_str());
    page(StatusCode::OK, &title_of(alert), &format!("<p>Since {began}, by the rule {rule}.</p>\n{state}"))
}

fn unknown() -> Response {
    let words = "<p>It is not there any more, or the link was cut. See <code>punctual alert ls</code>.</p>";
    page(StatusCode::NOT_FOUND, "There is no such alert", words)
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let title = escaped(title);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"style.css\">\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n\
         </body>\n</html>\n"
    );
    (status, HEADERS, page).into_response()
}

fn escaped(text: &str) -> String {
    in_html(&one_line(text, 500))
}
