//! HTTP calls, from the job in a real store to real sockets and back.

mod calls;
pub(crate) mod dns;
mod poison;
pub(crate) mod server;
mod ssrf;

use crate::node::{RunningNode, World};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::{NewJob, Run, Timeout};
use punctual_core::json::Json;
use punctual_core::retry::RetryPolicy;
use punctual_core::store::Store;
use punctual_core::target::{Http, Target};
use punctual_engine::secrets::SecretRules;
use punctual_engine::targets::http::guard::{Allowed, Guard};
use punctual_engine::targets::http::{HttpExecutor, HttpOptions};
use punctual_engine::work::Executors;
use std::sync::Arc;

/// A node that makes calls.
struct Calls {
    world: World,
    node: RunningNode,
}

impl Calls {
    fn new(options: HttpOptions) -> Self {
        let world = World::new();
        let executor = Arc::new(HttpExecutor::new(options).unwrap());
        let executors = Executors::default().with("http", executor).with_secrets(SecretRules::default());
        let node = world.start(executors);
        Self { world, node }
    }

    /// One that may call this machine.
    fn local() -> Self {
        Self::new(local_options())
    }

    async fn enqueue(&self, http: Http, input: &str) -> JobId {
        self.enqueue_job(job(http, input)).await
    }

    async fn enqueue_job(&self, job: NewJob) -> JobId {
        self.world.store.enqueue_jobs(vec![job]).await.unwrap()[0]
    }

    async fn end(&self, id: JobId) -> Run {
        self.world.until_ended(id).await.run().cloned().unwrap()
    }

    async fn call(&self, http: Http, input: &str) -> Run {
        let id = self.enqueue(http, input).await;
        self.end(id).await
    }
}

pub(crate) fn local_options() -> HttpOptions {
    HttpOptions { guard: allowing(&["127.0.0.1"]), ..HttpOptions::default() }
}

fn allowing(places: &[&str]) -> Guard {
    Guard::allowing(places.iter().map(|place| place.parse::<Allowed>().unwrap()).collect())
}

/// A job that is tried once, and that no call may make last.
fn job(http: Http, input: &str) -> NewJob {
    NewJob {
        input: Json::parse("input", input).unwrap(),
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        timeout: Timeout::After(SignedDuration::from_mins(1)),
        ..NewJob::new(Target::from(http))
    }
}

fn get(url: impl Into<String>) -> Http {
    Http::new("GET", url)
}

/// A run's output as a value.
fn output(run: &Run) -> serde_json::Value {
    run.output.as_ref().unwrap().to().unwrap()
}
