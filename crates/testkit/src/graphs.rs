//! A graph provider that counts outside of every store: a folder that several processes share and any of them may die
//! on.
//!
//! A run is started by making its file, which only one can do; whoever asks again joins it. What a graph is to do is in
//! its input: `{"ms": 300}` takes so long, `{"fail": true}` fails, `{"fail_first": 2}` fails for the first two runs of the
//! folder, and `{"unknown": 1}` starts the run and then cannot be reached, so many times.

use async_trait::async_trait;
use punctual_core::graph::{GraphEnd, GraphExecutor, GraphRun, Unknown, Used};
use punctual_core::id::GraphRunId;
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Graphs under the prefix `counting:`.
#[derive(Debug, Clone)]
pub struct CountingGraphs {
    folder: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wish {
    ms: u64,
    fail: bool,
    fail_first: usize,
    unknown: usize,
}

/// What is known of a run that was started.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    ends_at_ms: u128,
    fails: bool,
    graph: String,
    virtual_key: String,
}

impl CountingGraphs {
    /// Counts in a folder; what is there counts on.
    pub fn new(folder: &Path) -> Self {
        for part in ["runs", "charges", "asked"] {
            fs::create_dir_all(folder.join(part)).expect("a folder can be made");
        }
        Self { folder: folder.to_owned() }
    }

    /// How many runs were started.
    pub fn runs(&self) -> usize {
        self.count("runs")
    }

    /// How many runs were charged.
    pub fn charges(&self) -> usize {
        self.count("charges")
    }

    /// How often somebody asked, for whichever run.
    pub fn asked(&self) -> usize {
        let files = fs::read_dir(self.folder.join("asked")).expect("the folder is there");
        files.map(|file| lines(&file.expect("a file").path())).sum()
    }

    /// The runs that were started, in no order.
    pub fn run_ids(&self) -> Vec<GraphRunId> {
        let files = fs::read_dir(self.folder.join("runs")).expect("the folder is there");
        let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
        names.filter_map(|name| name.parse().ok()).collect()
    }

    fn count(&self, part: &str) -> usize {
        fs::read_dir(self.folder.join(part)).expect("the folder is there").count()
    }

    /// Starts a run, or finds the one that is there.
    fn start(&self, run: &GraphRun, wish: &Wish) -> Started {
        let path = self.folder.join("runs").join(run.run_id.to_string());
        let started = Started {
            ends_at_ms: now_ms() + u128::from(wish.ms),
            fails: wish.fail || self.runs() < wish.fail_first,
            graph: run.graph.to_string(),
            virtual_key: run.virtual_key.clone(),
        };
        // Written aside and linked into its place, which fails when somebody was quicker: nobody sees half of it.
        let aside = self.folder.join(format!("aside-{}", uuid::Uuid::new_v4()));
        fs::write(&aside, serde_json::to_vec(&started).expect("it is JSON")).expect("a file can be written");
        let linked = fs::hard_link(&aside, &path);
        fs::remove_file(&aside).expect("it is there");
        match linked {
            Ok(()) => started,
            Err(_) => serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("it is whole"),
        }
    }

    /// Counts a question; how many there were for this run.
    fn ask(&self, run: GraphRunId) -> usize {
        let path = self.folder.join("asked").join(run.to_string());
        let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file can be opened");
        file.write_all(b"asked\n").expect("a line can be written");
        lines(&path)
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).expect("it is text").lines().count()
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

#[async_trait]
impl GraphExecutor for CountingGraphs {
    fn provider(&self) -> &'static str {
        "counting"
    }

    async fn graphs(&self) -> Result<Vec<String>, Unknown> {
        Ok(vec!["a".to_owned(), "b".to_owned()])
    }

    async fn run_graph(&self, run: GraphRun) -> Result<GraphEnd, Unknown> {
        let wish: Wish = serde_json::from_str(run.input.as_str()).unwrap_or_default();
        let started = self.start(&run, &wish);
        assert_eq!(started.virtual_key, run.virtual_key, "a run is charged by one key");
        if self.ask(run.run_id) <= wish.unknown {
            return Err(Unknown("the line is dead".to_owned()));
        }
        let left = started.ends_at_ms.saturating_sub(now_ms());
        tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX))).await;
        let charge = self.folder.join("charges").join(run.run_id.to_string());
        fs::write(charge, &run.virtual_key).expect("a file can be written");
        let failure = started.fails.then(|| (ErrorCode::TargetError, "it was meant to fail".to_owned()));
        Ok(GraphEnd {
            output: failure.is_none().then(|| Json::parse("output", "{\"done\":true}").expect("it is JSON")),
            failure,
            references: [("thread_id".to_owned(), format!("thread-{}", run.run_id))].into(),
            used: vec![Used { unit: "run".into(), quantity: 1 }, Used { unit: "token".into(), quantity: 7 }],
        })
    }

    async fn cancel_graph(&self, _: GraphRunId) -> Result<(), Unknown> {
        Ok(())
    }
}
