//! The trace in which a request makes jobs: the caller's, with a span of our own in between when somebody keeps spans.

use axum::http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use punctual_core::trace::{Span, SpanId, SpanKind, SpanValue, TraceContext, TraceId, Tracer};
use std::sync::Arc;
use std::time::Instant;

/// Where the caller says that he stands; what is none is taken for nothing.
pub(crate) fn caller_of(headers: &HeaderMap) -> Option<TraceContext> {
    let given = headers.get("traceparent")?.to_str().ok()?;
    given.parse().inspect_err(|error| tracing::debug!("a caller's traceparent is ignored: {error}")).ok()
}

/// A request that makes jobs, from its beginning until it is dropped.
#[derive(Debug)]
pub(crate) struct Producing {
    context: Option<TraceContext>,
    span: Option<(Arc<dyn Tracer>, Span, Instant)>,
}

impl Producing {
    pub(crate) fn begin(tracer: &Arc<dyn Tracer>, caller: Option<TraceContext>, name: &'static str) -> Self {
        if !tracer.is_on() {
            return Self { context: caller, span: None };
        }
        let bits = uuid::Uuid::new_v4();
        let span_id = SpanId::from_random(bits.as_u64_pair().1);
        let context = match caller {
            Some(caller) => TraceContext { span_id, ..caller },
            None => {
                TraceContext { trace_id: TraceId::from_random(uuid::Uuid::new_v4().as_u128()), span_id, sampled: true }
            }
        };
        let now = Timestamp::now();
        let span = Span {
            name: name.to_owned(),
            kind: SpanKind::Producer,
            context,
            parent: caller.map(|caller| caller.span_id),
            follows: None,
            began_at: now,
            ended_at: now,
            attributes: Vec::new(),
            error: None,
        };
        Self { context: Some(context), span: Some((Arc::clone(tracer), span, Instant::now())) }
    }

    /// What a job that is made here keeps, unless its maker has said it.
    pub(crate) fn trace_context(&self) -> Option<String> {
        self.context.map(|context| context.to_string())
    }

    /// Says more of it.
    pub(crate) fn tell(&mut self, key: &'static str, value: impl Into<SpanValue>) {
        if let Some((_, span, _)) = &mut self.span {
            span.attributes.push((key, value.into()));
        }
    }
}

impl Drop for Producing {
    fn drop(&mut self) {
        let Some((tracer, mut span, begun)) = self.span.take() else { return };
        let took = SignedDuration::try_from(begun.elapsed()).unwrap_or_default();
        span.ended_at = span.began_at.saturating_add(took).unwrap_or(span.began_at);
        tracer.ended(span);
    }
}
