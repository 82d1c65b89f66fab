//! The dashboard as it is in this program: its files, or why there are none, and how they are sent.
//!
//! Every page is one and the same file, which finds out by its address what to show. It is sent for any path that a
//! browser asks for and that nothing else answers; whoever asks for anything but a page learns that nothing is there.

use crate::problem::{self, Problem};
use crate::settings::BasePath;
use crate::state::AppState;
use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_core::notify::wording::in_html;
use sha2::{Digest, Sha256};

/// The page of a program without a dashboard.
const PLACEHOLDER: &str = include_str!("../assets/no_dashboard.html");

/// Where the path goes below which everything is found; the build makes sure that it is there.
const BASE: &str = "<base href=\"/\"";

/// The page alone may say what its addresses are relative to. Nothing runs, is shown or is called but what this server
/// sends; pictures may also be made by the page itself.
const CSP: &str = "default-src 'self'; base-uri 'self'; connect-src 'self'; font-src 'self'; form-action 'self'; \
                   frame-ancestors 'none'; img-src 'self' data:; object-src 'none'; script-src 'self'; style-src 'self'";

/// Paths that are never pages: a caller who mistypes one of them must not get a page that says nothing of it.
pub(crate) const NO_PAGES: [&str; 8] =
    ["acknowledge", "api", "assets", "docs", "livez", "metrics", "openapi.json", "readyz"];

/// The folder whose files have a mark of their content in their names, and so never change.
const HASHED: &str = "assets/";

/// The files of a dashboard, or why there are none.
#[derive(Debug, Clone, Copy)]
pub struct Dashboard {
    files: &'static [DashboardFile],
    missing: Option<Missing>,
}

/// One file of a dashboard.
#[derive(Debug, Clone, Copy)]
pub struct DashboardFile {
    /// Below the root, without a slash at its beginning.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// A mark of its content.
    pub mark: &'static str,
    /// The file.
    pub bytes: &'static [u8],
    /// The same compressed, where that is smaller.
    pub gzip: Option<&'static [u8]>,
}

/// Why there is no dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// Why.
    pub reason: &'static str,
    /// What to do to have one.
    pub remedy: &'static str,
    /// Whether somebody wanted it so.
    pub on_purpose: bool,
}

impl Dashboard {
    /// What was built into this program.
    pub const BUILT: Self = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

    /// One with these files; `index.html` must be among them and have `<base href="/"` in it.
    pub const fn of(files: &'static [DashboardFile]) -> Self {
        Self { files, missing: None }
    }

    /// None, and why.
    pub const fn missing(why: Missing) -> Self {
        Self { files: &[], missing: Some(why) }
    }

    /// Why there is none, if there is none.
    pub fn why_missing(&self) -> Option<Missing> {
        self.missing
    }

    /// The same in a few words.
    pub fn status(&self) -> String {
        match self.missing {
            None => "built in".to_owned(),
            Some(Missing { reason, remedy, .. }) => format!("left out: {reason}; {remedy}"),
        }
    }

    /// Its files.
    pub fn files(&self) -> &'static [DashboardFile] {
        self.files
    }

    fn file(&self, path: &str) -> Option<&'static DashboardFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// The page, for one base path.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    mark: String,
}

impl Page {
    pub(crate) fn new(dashboard: &Dashboard, base: &BasePath) -> Self {
        let file = dashboard.file("index.html").map(|file| String::from_utf8_lossy(file.bytes).into_owned());
        let text = file.unwrap_or_else(|| placeholder(dashboard));
        let text = text.replacen(BASE, &format!("<base href=\"{base}/\""), 1);
        let mark = URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()));
        Self { text, mark }
    }
}

fn placeholder(dashboard: &Dashboard) -> String {
    let (reason, remedy) = dashboard.missing.map_or(("it has no index.html", ""), |why| (why.reason, why.remedy));
    PLACEHOLDER.replacen("{reason}", &in_html(reason), 1).replacen("{remedy}", &in_html(remedy), 1)
}

/// The page at the root.
pub(crate) async fn root(
    State(state): State<AppState>, OriginalUri(asked): OriginalUri, headers: HeaderMap,
) -> Response {
    let base = state.shared.settings.base_path.as_str();
    if !base.is_empty() && asked.path() == base {
        // Without the slash the browser would be beside the folder that everything is in. The guard puts the base in
        // front.
        let to = asked.query().map_or_else(|| "/".to_owned(), |query| format!("/?{query}"));
        return (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, to)]).into_response();
    }
    page(&state, &headers)
}

/// Whatever no route answers: a file, a page, or nothing.
pub(crate) async fn anything_else(State(state): State<AppState>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return problem::no_such_path().await.into_response();
    }
    if let Some(file) = state.shared.settings.dashboard.file(path).filter(|file| file.path != "index.html") {
        return send(file, request.headers());
    }
    let first = path.split('/').next().unwrap_or_default();
    if first == "assets" {
        return no_such_file().into_response();
    }
    if NO_PAGES.contains(&first) || !wants_page(request.headers()) {
        return problem::no_such_path().await.into_response();
    }
    page(&state, request.headers())
}

fn no_such_file() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_such_path", "the dashboard has no such file")
        .remedy("reload the page: after an update of the server its files have other names")
}

fn wants_page(headers: &HeaderMap) -> bool {
    texts(headers, header::ACCEPT).any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html"))
}

/// The elements of a header that is a list.
fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','))
}

fn page(state: &AppState, headers: &HeaderMap) -> Response {
    let page = &state.shared.page;
    let mut response = answer(headers, &page.mark, "text/html; charset=utf-8", page.text.clone().into());
    let csp = HeaderValue::from_static(CSP);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, csp);
    response
}

fn send(file: &'static DashboardFile, headers: &HeaderMap) -> Response {
    let gzip = file.gzip.filter(|_| takes_gzip(headers));
    let mut response = answer(headers, file.mark, file.kind, Body::from(gzip.unwrap_or(file.bytes)));
    let head = response.headers_mut();
    if file.gzip.is_some() {
        head.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if gzip.is_some() {
        head.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if file.path.starts_with(HASHED) {
        head.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    }
    response
}

/// Whether a caller takes gzip: named, or by `*`, and not with a weight of nothing.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let weight_of = |wanted: &str| {
        texts(headers, header::ACCEPT_ENCODING).find_map(|offer| {
            let (name, parameters) = offer.split_once(';').unwrap_or((offer, ""));
            let weight = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |weight| weight.trim().parse().ok());
            name.trim().eq_ignore_ascii_case(wanted).then(|| weight.unwrap_or(0.0))
        })
    };
    weight_of("gzip").or_else(|| weight_of("*")).is_some_and(|weight: f32| weight > 0.0)
}

/// The content, or only that it is still the same. The mark is a weak one: it is the same for compressed bytes.
fn answer(headers: &HeaderMap, mark: &str, kind: &'static str, body: Body) -> Response {
    let etag = format!("W/\"{mark}\"");
    let is_same = |known: &str| known.trim() == "*" || known.trim().trim_start_matches("W/").trim_matches('"') == mark;
    let same = texts(headers, header::IF_NONE_MATCH).any(is_same);
    let head = [(header::ETAG, etag), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if same {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, [(header::CONTENT_TYPE, kind)], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_go_to_those_who_take_them() {
        for (offer, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("identity, *;q=0", false),
            ("gzip;q=0, *", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(offer))]);
            assert_eq!(takes_gzip(&headers), takes, "{offer}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn whoever_wants_a_page_says_so() {
        for (accept, wants) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json, text/html;q=0.1", true),
            ("*/*", false),
            ("application/json", false),
            ("text/htmlx", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_page(&headers), wants, "{accept}");
        }
    }

    #[test]
    fn the_reason_is_shown_as_text() {
        let why = Missing { reason: "<b>no</b> Node", remedy: "install \"it\"", on_purpose: false };
        let base = BasePath::parse("/x").unwrap();
        let page = Page::new(&Dashboard::missing(why), &base);
        assert!(page.text.contains("&lt;b&gt;no&lt;/b&gt; Node") && page.text.contains("install &quot;it&quot;"));
        assert!(page.text.contains("<base href=\"/x/\">"), "{}", page.text);
    }
}
