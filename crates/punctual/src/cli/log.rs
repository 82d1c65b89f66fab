//! What a process says of itself on standard error: lines for people, or JSON for machines.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line, with `trace_id`, `span_id` and `job_id` where it is said within a run.
    Json,
}

/// Warnings and errors are heard from here on; `PUNCTUAL_LOG=debug` says more.
pub(crate) fn begin(format: LogFormat) {
    let level = std::env::var("PUNCTUAL_LOG").ok().and_then(|word| word.parse().ok()).unwrap_or(Level::WARN);
    match format {
        LogFormat::Text => {
            tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false).init();
        }
        LogFormat::Json => {
            let lines = JsonLines.with_filter(LevelFilter::from_level(level));
            tracing_subscriber::registry().with(lines).init();
        }
    }
}

/// Writes each event as one line.
struct JsonLines;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Fields::default();
        line.put("timestamp", jiff::Timestamp::now().to_string());
        line.put("level", event.metadata().level().as_str());
        // What is said within something has its fields, and its own win.
        for span in context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.0.extend(fields.0.clone());
            }
        }
        event.record(&mut line);
        let mut text = Value::Object(line.0).to_string();
        text.push('\n');
        // One write, so that lines of several threads never mix; who does not listen misses it.
        let _deaf = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

/// What is said, by name.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing into a text cannot fail, other than by what is written; then it stays as far as it came.
        let _cut = write!(text, "{value:?}");
        self.put(field.name(), text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }
}
