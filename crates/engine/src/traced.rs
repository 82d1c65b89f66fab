//! A run as a span: for whoever keeps spans, and around every line of the log that is said within it.

use crate::clock::Uptime;
use jiff::SignedDuration;
use punctual_core::store::{ClaimedJob, FinishedRun};
use punctual_core::trace::{Span, SpanValue, TraceContext, Tracer};
use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

/// A run that is going on. It costs next to nothing when nobody keeps spans.
pub(crate) struct TracedRun {
    tracer: Arc<dyn Tracer>,
    /// With when it began, on the node's own clock.
    span: Option<(Span, Duration)>,
    uptime: Uptime,
}

impl TracedRun {
    /// Begins the span of a claimed job's run, which waited here for so long: all times are the store's, so that spans of
    /// several nodes fit together.
    pub(crate) fn begin(tracer: Arc<dyn Tracer>, claimed: &ClaimedJob, waited: Duration, uptime: Uptime) -> Self {
        let ClaimedJob { job, started_at } = claimed;
        if let Some(stored) = &job.spec.trace_context
            && TraceContext::asked_by(job).is_none()
        {
            tracing::warn!(job_id = %job.id, stored, "the trace context of a job is none; it gets a trace of its own");
        }
        let span = tracer.is_on().then(|| {
            let began_at = started_at.saturating_add(signed(waited)).unwrap_or(*started_at);
            (Span::of_run(job, began_at), uptime.now())
        });
        Self { tracer, span, uptime }
    }

    /// Ends it, as the run ended.
    pub(crate) fn end(self, end: &FinishedRun) {
        let Some((mut span, began_at)) = self.span else { return };
        let took = signed(self.uptime.now().saturating_sub(began_at));
        span.ended_at = span.began_at.saturating_add(took).unwrap_or(span.began_at);
        span.attributes.push(("punctual.outcome", end.outcome.as_str().into()));
        if let Some(code) = end.error_code {
            span.attributes.push(("punctual.error_code", code.as_str().into()));
        }
        if let Some(code) = end.exit_code {
            span.attributes.push(("punctual.exit_code", SpanValue::Number(i64::from(code))));
        }
        let span = match end.error_code {
            Some(code) => span.failed(end.error.as_deref().unwrap_or(code.as_str())),
            None => span,
        };
        self.tracer.ended(span);
    }
}

/// What stands around the lines of a run's log.
pub(crate) fn log_span(claimed: &ClaimedJob) -> tracing::Span {
    // Where nobody hears anything it is not needed.
    let context = LazyCell::new(|| TraceContext::of_run(&claimed.job));
    // Of the highest level, so that whoever hears anything hears where it belongs.
    tracing::error_span!(
        "run",
        job_id = %claimed.job.id,
        trace_id = %context.trace_id,
        span_id = %context.span_id
    )
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
