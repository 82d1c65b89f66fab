//! Handlers with types: JSON in, JSON out.

use crate::{Context, TaskError};
use punctual_core::execute::Executor;
use punctual_core::json::Json;
use punctual_engine::targets::task::Handler;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Makes an executor of a typed handler.
pub(crate) fn executor<I, O, F, W>(handler: F) -> Arc<dyn Executor>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    F: Fn(Context, I) -> W + Send + Sync + 'static,
    W: Future<Output = Result<O, TaskError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(Handler::new(move |context: Context| {
        let handler = Arc::clone(&handler);
        async move {
            let input = context.job.spec.input.to().map_err(|error| TaskError::Fatal(format!("bad input: {error}")))?;
            let output = handler(context, input).await?;
            Json::from_value("output", &output).map(Some).map_err(|error| TaskError::Fatal(error.to_string()))
        }
    }))
}
