//! Spans of this process on their way to a receiver, if OpenTelemetry's variables name one.

use std::sync::Arc;

use punctual::otlp::{Otlp, OtlpSettings, Sending};
use punctual_core::meter::Meter;
use punctual_core::trace::{NoTracer, Tracer};

use super::Stop;
use super::worker::host_name;

/// The receiver of traces that OpenTelemetry's variables name, if they name one.
pub(crate) fn receiver() -> Result<Option<OtlpSettings>, Stop> {
    OtlpSettings::from_env().map_err(|refused| Stop::usage(refused.to_string()))
}

/// Spans on their way to a receiver, or nowhere.
pub(crate) struct Traces(Option<(Arc<Otlp>, Sending)>);

impl Traces {
    /// Begins to send, if there is a receiver.
    pub(crate) fn start(meter: Arc<dyn Meter>) -> Result<Self, Stop> {
        let Some(settings) = receiver()? else { return Ok(Self(None)) };
        let settings = settings.with_resource("host.name", &host_name());
        let started = Otlp::start(settings, meter).map_err(|refused| Stop::usage(refused.to_string()))?;
        Ok(Self(Some(started)))
    }

    /// Where spans are put.
    pub(crate) fn tracer(&self) -> Arc<dyn Tracer> {
        match &self.0 {
            Some((otlp, _)) => Arc::clone(otlp) as Arc<dyn Tracer>,
            None => Arc::new(NoTracer),
        }
    }

    /// Sends what is left.
    pub(crate) async fn stop(self) {
        if let Some((_, sending)) = self.0 {
            sending.stop().await;
        }
    }
}
