//! `langgraph:NAME`: graphs at a LangGraph server, run through its HTTP API, once for each run id.
//!
//! The id of a run is the id of the thread it has at the server, and a thread has one run. Whoever makes the thread
//! makes the run; everybody else finds the thread there, and waits for its run.

mod ask;
mod end;

use crate::graphs::langgraph::ask::{Answer, Line};
use async_trait::async_trait;
use punctual_core::graph::{GraphEnd, GraphExecutor, GraphRun, Unknown};
use punctual_core::id::GraphRunId;
use punctual_core::invalid::Invalid;
use punctual_core::run::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How long one call for the end of a run is waited on before the run is looked at and waited for anew.
const JOIN: Duration = Duration::from_secs(30);
/// Between two looks at a run that the server does not let us wait for.
const PAUSE: Duration = Duration::from_millis(250);
/// How many graphs are asked for at once.
const PAGE: usize = 100;
/// Two calls for one run take turns to start it; others hardly ever wait for them.
const TURNS: usize = 64;

/// Where a LangGraph server is.
#[derive(Clone)]
pub struct LangGraphOptions {
    /// Its address, such as `http://localhost:2024`.
    pub url: String,
    /// The key it asks for (`x-api-key`).
    pub api_key: Option<String>,
    /// How long a thread may be without its run before whoever made it is taken for dead. Longer than a call may take.
    pub settle: Duration,
}

impl LangGraphOptions {
    /// A server that asks for no key.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), api_key: None, settle: ask::PATIENCE + Duration::from_secs(5) }
    }
}

impl std::fmt::Debug for LangGraphOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.api_key.as_ref().map(|_| "(hidden)");
        f.debug_struct("LangGraphOptions").field("url", &self.url).field("api_key", &key).finish_non_exhaustive()
    }
}

/// The graphs of one LangGraph server.
pub struct LangGraph {
    line: Line,
    settle: Duration,
    turns: [Mutex<()>; TURNS],
}

/// A run as the server tells of it.
#[derive(Debug, Clone, Deserialize)]
struct Run {
    #[serde(rename = "run_id")]
    id: Uuid,
    #[serde(default)]
    status: String,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    metadata: serde_json::Value,
}

/// Whether a run was found or made, or will never be.
enum Start {
    Run(Uuid),
    /// The server wants no such run, and has none.
    Refused(String),
}

impl LangGraph {
    /// Checks the address and the key; nothing is asked yet.
    pub fn new(options: &LangGraphOptions) -> Result<Self, Invalid> {
        let line = Line::new(&options.url, options.api_key.as_deref())?;
        Ok(Self { line, settle: options.settle, turns: [const { Mutex::const_new(()) }; TURNS] })
    }

    /// The run of a thread: the one that is there, else a new one.
    async fn start(&self, run: &GraphRun) -> Result<Start, Unknown> {
        let _turn = self.turns[usize::from(run.run_id.0.as_bytes()[15]) % TURNS].lock().await;
        if !self.make_thread(run).await?
            && let Some(found) = self.await_run_of(run.run_id).await?
        {
            return Ok(Start::Run(found.id));
        }
        self.make_run(run).await
    }

    /// Makes the thread; says no when there is one already.
    async fn make_thread(&self, run: &GraphRun) -> Result<bool, Unknown> {
        let wanted = json!({ "thread_id": run.run_id, "if_exists": "raise", "metadata": notes(run) });
        let answer = self.line.post("/threads", &wanted, None).await?;
        match answer.status {
            200 => Ok(true),
            409 => Ok(false),
            _ => Err(answer.not_expected("it did not make a thread")),
        }
    }

    /// The run of a thread that somebody else made. He may be about to make it, or dead.
    async fn await_run_of(&self, thread: GraphRunId) -> Result<Option<Run>, Unknown> {
        let begun = Instant::now();
        loop {
            let found = self.run_of(thread).await?;
            if found.is_some() || begun.elapsed() >= self.settle {
                return Ok(found);
            }
            sleep(PAUSE).await;
        }
    }

    /// The first run of a thread; people may have made more of them by hand.
    async fn run_of(&self, thread: GraphRunId) -> Result<Option<Run>, Unknown> {
        let answer = self.line.get(&format!("/threads/{thread}/runs?limit=100")).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        let runs: Vec<Run> = answer.expect("the runs of a thread")?;
        Ok(runs.into_iter().min_by(|one, other| one.created_at.cmp(&other.created_at)))
    }

    async fn make_run(&self, run: &GraphRun) -> Result<Start, Unknown> {
        let thread = run.run_id;
        let wanted = NewRun {
            assistant_id: run.graph.name(),
            input: &run.input,
            metadata: notes(run),
            config: json!({ "configurable": {
                "virtual_key": run.virtual_key, "trace_id": run.trace_id, "grant_id": run.grant_id } }),
            multitask_strategy: "reject",
            if_not_exists: "reject",
        };
        let answer = self.line.post(&format!("/threads/{thread}/runs"), &wanted, Some(run)).await?;
        match answer.status {
            200 => Ok(Start::Run(answer.expect::<Run>("a new run")?.id)),
            // Somebody was quicker.
            409 => match self.run_of(thread).await? {
                Some(found) => Ok(Start::Run(found.id)),
                None => Err(answer.not_expected("the thread is busy, but has no run")),
            },
            400 | 404 | 422 => Ok(Start::Refused(format!(
                "the LangGraph server refused to run {}: {}",
                run.graph.name(),
                answer.detail()
            ))),
            _ => Err(answer.not_expected("it did not start the run")),
        }
    }

    /// Waits until a run has ended.
    async fn end_of(&self, thread: GraphRunId, run: Uuid) -> Result<Run, Unknown> {
        loop {
            // What it says is only a wake-up: the run itself tells how it ended.
            let waited = timeout(JOIN, self.line.wait_on(&format!("/threads/{thread}/runs/{run}/join"))).await;
            let now: Run = self.line.get(&format!("/threads/{thread}/runs/{run}")).await?.expect("its run")?;
            if !matches!(now.status.as_str(), "pending" | "running") {
                return Ok(now);
            }
            if waited.is_ok() {
                sleep(PAUSE).await;
            }
        }
    }

    async fn is_over(&self, run: &GraphRun, id: Uuid) -> Result<GraphEnd, Unknown> {
        let ended = self.end_of(run.run_id, id).await?;
        let thread = self.line.get(&format!("/threads/{}", run.run_id)).await?;
        if let Answer { too_large: true, .. } = thread {
            return Ok(end::of_large_state(run, &ended));
        }
        end::judge(run, &ended, &thread.expect("its thread")?)
    }
}

#[derive(Serialize)]
struct NewRun<'a> {
    assistant_id: &'a str,
    input: &'a punctual_core::json::Json,
    metadata: serde_json::Value,
    /// What the graph sees as `config["configurable"]`.
    config: serde_json::Value,
    multitask_strategy: &'a str,
    if_not_exists: &'a str,
}

/// What a run is found by at the server. The virtual key is not among it: people search by these.
fn notes(run: &GraphRun) -> serde_json::Value {
    json!({ "punctual_run_id": run.run_id, "trace_id": run.trace_id, "grant_id": run.grant_id, "owner": run.owner })
}

#[async_trait]
impl GraphExecutor for LangGraph {
    fn provider(&self) -> &'static str {
        "langgraph"
    }

    async fn graphs(&self) -> Result<Vec<String>, Unknown> {
        #[derive(Deserialize)]
        struct Assistant {
            graph_id: String,
        }
        let mut names = BTreeSet::new();
        for offset in (0..).step_by(PAGE) {
            let wanted = json!({ "limit": PAGE, "offset": offset });
            let answer = self.line.post("/assistants/search", &wanted, None).await?;
            let page: Vec<Assistant> = answer.expect("its assistants")?;
            let is_last = page.len() < PAGE;
            names.extend(page.into_iter().map(|assistant| assistant.graph_id));
            if is_last {
                break;
            }
        }
        Ok(names.into_iter().collect())
    }

    async fn run_graph(&self, run: GraphRun) -> Result<GraphEnd, Unknown> {
        if let Err(refused) = ask::headers(&run) {
            return Ok(end::without_run(&run, ErrorCode::TargetRejected, refused.to_string()));
        }
        match self.start(&run).await? {
            Start::Run(id) => self.is_over(&run, id).await,
            Start::Refused(words) => Ok(end::without_run(&run, ErrorCode::TargetRejected, words)),
        }
    }

    async fn cancel_graph(&self, run: GraphRunId) -> Result<(), Unknown> {
        let Some(found) = self.run_of(run).await? else { return Ok(()) };
        if !matches!(found.status.as_str(), "pending" | "running") {
            return Ok(());
        }
        let path = format!("/threads/{run}/runs/{}/cancel?wait=false&action=interrupt", found.id);
        let answer = self.line.post(&path, &json!({}), None).await?;
        match answer.status {
            // It has ended meanwhile.
            200..300 | 404 | 409 => Ok(()),
            _ => Err(answer.not_expected("it did not stop the run")),
        }
    }
}
