//! The OpenAPI document: what the code says of itself, with what holds for every call.

use crate::api;
use crate::problem::{FieldProblem, ProblemBody};
use crate::settings::BasePath;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::OnceLock;
use utoipa::PartialSchema;

/// Where the API is.
const ROOT: &str = "/api/v1";

/// The document as it is served and committed: indented JSON with a line feed at its end.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
        text.push('\n');
        text
    })
}

/// The same for a server that is found below a path.
pub(crate) fn text_below(base: &BasePath) -> Cow<'static, str> {
    if base.as_str().is_empty() {
        return text().into();
    }
    text().replacen(&format!("\"url\": \"{ROOT}\""), &format!("\"url\": \"{base}{ROOT}\""), 1).into()
}

/// The document.
pub fn document() -> Value {
    let mut document = serde_json::to_value(api::described()).unwrap_or_default();
    document["info"] = json!({
        "title": "Punctual",
        "description": "Work that runs on time, once, and leaves a record.",
        "version": env!("CARGO_PKG_VERSION"),
        "license": { "name": "MIT OR Apache-2.0" },
    });
    document["servers"] = json!([{ "url": ROOT }]);
    document["security"] = json!([{ "bearer": [] }, { "cookie": [] }]);
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "An API token." },
        "cookie": { "type": "apiKey", "in": "cookie", "name": "punctual_session",
                    "description": "A session; changes also need the header X-CSRF-Token." },
    });
    let schemas = &mut components["schemas"];
    schemas["Problem"] = serde_json::to_value(ProblemBody::schema()).unwrap_or_default();
    schemas["FieldProblem"] = serde_json::to_value(FieldProblem::schema()).unwrap_or_default();
    // What only a document of `core` refers to.
    schemas["TextOrSecret"] = serde_json::to_value(api::words::TextOrSecret::schema()).unwrap_or_default();
    schemas["Statuses"] = serde_json::to_value(api::words::StatusesDocument::schema()).unwrap_or_default();
    schemas["SchedulePatch"] = patch_of(&schemas["NewSchedule"]);
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, item) in paths {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                complete(path, method, operation);
            }
        }
    }
    document["paths"]["/schedules/{key}"]["patch"]["requestBody"]["content"]["application/json"]["schema"] =
        json!({ "$ref": "#/components/schemas/SchedulePatch" });
    document
}

/// The same fields, none of them needed.
fn patch_of(whole: &Value) -> Value {
    let mut patch = whole.clone();
    if let Some(schema) = patch.as_object_mut() {
        schema.remove("required");
        schema.insert("description".to_owned(), json!("What is to change of a schedule; `null` takes a field away."));
        if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            fields.remove("grant");
        }
    }
    patch
}

/// What can be changed on condition that nobody else did meanwhile.
const VERSIONED: [&str; 5] =
    ["/schedules/{key}", "/calendars/{name}", "/channels/{name}", "/flows/{name}", "/rules/{name}"];

/// What holds for every call: a name of its own, and the problems it may answer with.
fn complete(path: &str, method: &str, operation: &mut Value) {
    let tag = operation["tags"][0].as_str().unwrap_or("api").to_owned();
    let name = operation["operationId"].as_str().unwrap_or(method).to_owned();
    operation["operationId"] = json!(format!("{tag}_{name}"));
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    let changes = method != "get";
    let mut problems = vec![
        ("400", "the request cannot be read"),
        ("401", "the token is missing, unknown, revoked or expired"),
        ("403", "the role does not allow it, or another site asked"),
        ("404", "there is no such thing, or it is somebody else's"),
        ("421", "the server is not called by that name"),
        ("422", "a value is refused; `errors` says which"),
        ("429", "too many requests; see Retry-After"),
        ("500", "something went wrong inside Punctual"),
        ("503", "the store cannot be reached just now"),
    ];
    if changes {
        problems.extend([
            ("409", "it is not in a state in which this can be done, or the name is taken"),
            ("413", "the body is too large"),
            ("415", "the body is not declared to be JSON"),
            ("507", "the store has no room left"),
        ]);
    }
    if VERSIONED.contains(&path) && changes {
        problems.push(("412", "it was changed by somebody else"));
    }
    for (status, description) in problems {
        responses.entry(status).or_insert_with(|| problem(description));
    }
    let sorted: std::collections::BTreeMap<_, _> = std::mem::take(responses).into_iter().collect();
    *responses = Map::from_iter(sorted);
}

fn problem(description: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_call_has_a_name_of_its_own_and_a_summary() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        let mut names = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let name = operation["operationId"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{name} is there twice");
                assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            }
        }
        assert!(names.len() > 30, "{names:?}");
    }

    #[test]
    fn a_server_below_a_path_says_so() {
        let base = BasePath::parse("/punctual").unwrap();
        let below: Value = serde_json::from_str(&text_below(&base)).unwrap();
        assert_eq!(below["servers"], json!([{ "url": "/punctual/api/v1" }]));
        assert_eq!(text_below(&BasePath::default()), text());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = text();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }

    /// The committed document is the code's own; `cargo xtask openapi` writes it anew.
    #[test]
    fn the_committed_document_is_fresh() {
        let committed = include_str!("../../../openapi.json");
        assert!(committed == text(), "openapi.json is stale: run `cargo xtask openapi`");
    }
}
