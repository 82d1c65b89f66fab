//! A LangGraph development server of a test's own, with small graphs that need no model and no network.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to start, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(90);

/// The server, and the folder in which it keeps what it knows. Its graphs are `echo`, `gated`, `failing`, `asking` and
/// `talking`.
#[derive(Debug)]
pub struct LangGraph {
    folder: TempDir,
    running: Option<(Child, u16)>,
}

impl LangGraph {
    /// Starts a server that knows nothing yet.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("punctual-lg-").tempdir().expect("a folder can be made");
        for (name, text) in [
            ("graphs.py", include_str!("langgraph/graphs.py")),
            ("langgraph.json", include_str!("langgraph/langgraph.json")),
        ] {
            fs::write(folder.path().join(name), text).expect("the graphs can be written");
        }
        let mut server = Self { folder, running: None };
        server.start_again();
        server
    }

    /// Starts it once more on what it kept, at another address: somebody may have taken the old one.
    pub fn start_again(&mut self) {
        self.kill();
        let begun = Instant::now();
        while self.running.is_none() {
            assert!(begun.elapsed() < PATIENCE, "the LangGraph server does not start:\n{}", self.log());
            self.running = self.try_to_start(begun);
        }
    }

    /// A port that is free may be taken before the server has it: then there is no server, and another try.
    fn try_to_start(&self, begun: Instant) -> Option<(Child, u16)> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port is free").port();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.expect("its log can be written");
        let mut child = Command::new(program())
            .args(["dev", "--no-browser", "--no-reload", "--allow-blocking", "--n-jobs-per-worker", "8"])
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .current_dir(self.folder.path())
            // Nothing of the developer's own: no key, no tracing, no account.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.folder.path())
            .envs([("LANGSMITH_TRACING", "false"), ("LANGGRAPH_CLI_NO_ANALYTICS", "1"), ("NO_COLOR", "1")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("twice"))
            .stderr(log)
            .spawn()
            .expect("the LangGraph server can be started");
        while begun.elapsed() < PATIENCE {
            if child.try_wait().expect("it can be asked").is_some() {
                return None;
            }
            if answers(port) {
                return Some((child, port));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        end(&mut child);
        None
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        let (_, port) = self.running.as_ref().expect("it runs");
        format!("http://127.0.0.1:{port}")
    }

    /// Ends it where it stands, as a crash does.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            end(&mut child);
        }
    }

    /// How often a graph has begun to run for a thread, as the graph itself wrote it down.
    pub fn started(&self, graph: &str, thread: &str) -> usize {
        let line = format!("{graph} {thread}");
        let written = fs::read_to_string(self.folder.path().join("started")).unwrap_or_default();
        written.lines().filter(|it| *it == line).count()
    }

    /// Lets the runs of `gated` come to their end.
    pub fn open_gate(&self) {
        fs::write(self.folder.path().join("gate"), "").expect("the gate can be opened");
    }

    /// What it said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for LangGraph {
    fn drop(&mut self) {
        self.kill();
    }
}

fn end(child: &mut Child) {
    let _gone = child.kill();
    let _waited = child.wait();
}

fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /ok HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"ok\":true"))
}

/// In the environment that `cargo xtask deps` makes.
fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("target/langgraph/bin/langgraph");
    assert!(program.is_file(), "the LangGraph server is not installed: run `cargo xtask deps`");
    program.canonicalize().expect("it was there just now")
}
