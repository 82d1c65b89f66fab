//! Webhooks: a CloudEvents document, posted as one.

use crate::targets::http::Request;
use jiff::Timestamp;
use punctual_core::id::DeliveryId;
use punctual_core::notify::event::Subject;
use punctual_core::notify::message::{Message, Occasion};
use punctual_core::notify::wording::{Wording, one_line};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most of a name that a subject holds.
const SUBJECT_CHARS: usize = 200;

/// CloudEvents 1.0 in structured mode. The same message is the same bytes every time.
#[derive(Serialize)]
struct Event<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    time: Timestamp,
    datacontenttype: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    #[serde(flatten)]
    message: &'a Message,
    links: BTreeMap<&'static str, &'a str>,
}

/// What is posted.
pub(super) fn body(id: DeliveryId, message: &Message, wording: &Wording, public_url: Option<&str>) -> Vec<u8> {
    let event = Event {
        specversion: "1.0",
        id: id.to_string(),
        source: public_url.unwrap_or("punctual"),
        kind: kind(message.occasion),
        subject: subject(message),
        time: message.at,
        datacontenttype: "application/json",
        data: Data {
            title: &wording.title,
            message,
            links: wording.links.iter().map(|link| (link.label, link.url.as_str())).collect(),
        },
    };
    // Nothing in it has keys that are no text, so that writing cannot fail.
    serde_json::to_vec(&event).unwrap_or_default()
}

fn kind(occasion: Occasion) -> &'static str {
    match occasion {
        Occasion::Opened => "dev.punctual.alert.opened",
        Occasion::Escalated => "dev.punctual.alert.escalated",
        Occasion::Reminder => "dev.punctual.alert.reminder",
        Occasion::Recovered => "dev.punctual.alert.recovered",
        Occasion::Well => "dev.punctual.well",
        Occasion::Test => "dev.punctual.test",
    }
}

/// What it is about, when that is one thing. The format takes no control characters here.
fn subject(message: &Message) -> Option<String> {
    match &message.subjects[..] {
        [Subject { kind, name, .. }] => Some(format!("{kind}/{}", one_line(name, SUBJECT_CHARS))),
        _ => None,
    }
}

/// The POST, still without a signature.
pub(super) fn request(url: &str, body: Vec<u8>) -> Result<Request, String> {
    let mut request = Request::new(Method::POST, url, body).map_err(|refused| refused.to_string())?;
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/cloudevents+json; charset=utf-8"));
    Ok(request)
}

/// Adds a header of the channel's own.
pub(super) fn add_header(request: &mut Request, name: &str, value: &str) -> Result<(), String> {
    let unfit = || format!("the header {name} cannot be sent: it holds a line break or the like");
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| unfit())?;
    value.set_sensitive(true);
    request.headers.insert(name, value);
    Ok(())
}
