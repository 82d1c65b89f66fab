//! The doctor's answer: what is wrong, where, and what to do about it.

use crate::auth::Caller;
use crate::doctor::{Diagnosis, Finding, Looked, diagnose};
use crate::extract::{Asked, page_size};
use crate::problem::Answered;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_core::access::Role;
use punctual_core::checks::Severity;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};

/// How closely to look.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DoctorAsked {
    /// Leaves out the checks that read every table, which take minutes for many millions of jobs.
    quick: Option<bool>,
    /// How many subjects of each finding are told, 1 to 500; 50 unless said otherwise.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Severity)]
pub(crate) enum SeverityBody {
    /// Somebody should look; the store itself is sound.
    Attention,
    /// An invariant does not hold.
    Broken,
}

impl From<Severity> for SeverityBody {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Attention => Self::Attention,
            Severity::Broken => Self::Broken,
        }
    }
}

/// Something that was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
pub(crate) struct FindingBody {
    /// What it is, as a word that stays the same.
    code: &'static str,
    severity: SeverityBody,
    /// What is wrong, in words.
    problem: &'static str,
    /// Where: ids, names, or what the store said.
    subjects: Vec<String>,
    /// Whether there are more than are listed.
    more: bool,
    /// What to do.
    remedy: &'static str,
}

impl From<Finding> for FindingBody {
    fn from(finding: Finding) -> Self {
        let Finding { code, severity, problem, subjects, more, remedy } = finding;
        Self { code, severity: severity.into(), problem, subjects, more, remedy }
    }
}

/// Something that was looked at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Looked)]
pub(crate) struct LookedBody {
    what: &'static str,
    /// How many; null when it was the whole.
    count: Option<usize>,
    /// Whether there are some that were not looked at.
    more: bool,
}

impl From<Looked> for LookedBody {
    fn from(looked: Looked) -> Self {
        let Looked { what, count, more } = looked;
        Self { what, count, more }
    }
}

/// How things are.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnosis)]
pub(crate) struct DiagnosisBody {
    /// The worst of the findings; null when there are none.
    worst: Option<SeverityBody>,
    /// What was found, worst first.
    findings: Vec<FindingBody>,
    /// What was looked at: whatever is not listed was not.
    looked_at: Vec<LookedBody>,
    /// When, by the store's clock.
    at: Timestamp,
    took_ms: u64,
}

/// Look for what is wrong, and say what to do about it; for admins. It watches the nodes for up to three seconds.
#[utoipa::path(get, path = "/doctor", tag = "system", params(DoctorAsked),
    responses((status = 200, description = "what was found", body = DiagnosisBody)))]
pub(crate) async fn doctor(
    State(state): State<AppState>, caller: Caller, Asked(asked): Asked<DoctorAsked>,
) -> Answered<Json<DiagnosisBody>> {
    caller.require(Role::Admin)?;
    let begun = Instant::now();
    let limit = page_size(asked.limit)?;
    let Diagnosis { at, findings, looked_at } = diagnose(&state, asked.quick.unwrap_or(false), limit).await?;
    Ok(Json(DiagnosisBody {
        worst: findings.iter().map(|finding| finding.severity).max().map(Into::into),
        findings: findings.into_iter().map(Into::into).collect(),
        looked_at: looked_at.into_iter().map(Into::into).collect(),
        at,
        took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}
