//! What is wrong with a manifest: all of it at once, each with its place in the manifest.

use crate::problem::{FieldProblem, Problem};
use axum::http::StatusCode;
use punctual_core::invalid::Invalid;
use punctual_core::manifest::ThingKind;

/// How many are told; a file that is wrong in more places is wrong throughout.
const TOLD_MAX: usize = 200;

/// What kind of refusal it is. The first of them that a manifest meets decides how the whole is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// It could never work.
    Wrong,
    /// The caller may not do it.
    Role,
    /// Somebody else has it.
    Taken,
}

/// Everything that is wrong.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    found: Vec<(Why, FieldProblem)>,
}

impl Refusals {
    /// Notes a refusal of a part of the manifest.
    pub(crate) fn add(&mut self, why: Why, pointer: String, detail: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty());
        self.found.push((why, FieldProblem { pointer, detail: detail.into(), remedy }));
    }

    /// Notes that a thing could never work.
    pub(crate) fn invalid(&mut self, kind: ThingKind, name: &str, invalid: Invalid) {
        let Invalid { field, problem, remedy } = invalid;
        let pointer = format!("{}/{}", place(kind, name), field.replace(['.', '['], "/").replace(']', ""));
        self.add(Why::Wrong, pointer, problem, remedy.unwrap_or_default());
    }

    /// The whole as one answer, if there is anything.
    pub(crate) fn into_problem(mut self) -> Result<(), Problem> {
        let Some(worst) = self.found.iter().map(|(why, _)| *why).min() else { return Ok(()) };
        let all = self.found.len();
        self.found.truncate(TOLD_MAX);
        let (status, code) = match worst {
            Why::Wrong => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_manifest"),
            Why::Role => (StatusCode::FORBIDDEN, "role_too_low"),
            Why::Taken => (StatusCode::CONFLICT, "not_the_manifests"),
        };
        let told = match all {
            1 => "one thing is wrong with the manifest; nothing was changed".to_owned(),
            all => format!("{all} things are wrong with the manifest; nothing was changed"),
        };
        let parts = self.found.into_iter().map(|(_, part)| part).collect();
        let remedy = "change what `errors` names, and send it again; `remedy` beside each says how";
        Err(Problem::new(status, code, told).remedy(remedy).at_all(parts))
    }
}

/// The section of a manifest that holds things of a kind.
pub(crate) fn section(kind: ThingKind) -> String {
    format!("{kind}s")
}

/// The JSON pointer of a thing.
pub(crate) fn place(kind: ThingKind, name: &str) -> String {
    format!("/{kind}s/{}", escaped(name))
}

/// A name as a part of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
