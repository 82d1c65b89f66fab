//! Spans as the JSON of OTLP.

use super::OtlpSettings;
use punctual_core::trace::{Span, SpanKind, SpanValue};
use serde::Serialize;
use serde_json::{Value, json};

/// The body of one request.
pub(super) fn request(settings: &OtlpSettings, spans: &[Span]) -> String {
    let resource: Vec<Value> =
        settings.resource().map(|(key, value)| attribute(key, &SpanValue::from(value))).collect();
    let spans: Vec<OtlpSpan> = spans.iter().map(OtlpSpan::of).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "punctual", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
    }] })
    .to_string()
}

/// Ids are in hexadecimal digits and large numbers are texts: the JSON of OTLP differs there from that of its protocol
/// buffers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpSpan {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Value>,
    links: Vec<Value>,
    status: Value,
}

impl OtlpSpan {
    fn of(span: &Span) -> Self {
        let trace_id = span.context.trace_id.to_string();
        let link = |follows| json!({ "traceId": trace_id, "spanId": format!("{follows}") });
        Self {
            span_id: span.context.span_id.to_string(),
            parent_span_id: span.parent.map(|parent| parent.to_string()),
            flags: u32::from(span.context.sampled),
            name: span.name.clone(),
            kind: match span.kind {
                SpanKind::Producer => 4,
                SpanKind::Consumer => 5,
            },
            start_time_unix_nano: span.began_at.as_nanosecond().to_string(),
            end_time_unix_nano: span.ended_at.as_nanosecond().to_string(),
            attributes: span.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
            links: span.follows.map(link).into_iter().collect(),
            status: span.error.as_ref().map_or_else(|| json!({}), |why| json!({ "code": 2, "message": why })),
            trace_id,
        }
    }
}

fn attribute(key: &str, value: &SpanValue) -> Value {
    let value = match value {
        SpanValue::Text(text) => json!({ "stringValue": text }),
        SpanValue::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}
