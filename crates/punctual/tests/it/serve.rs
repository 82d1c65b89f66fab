//! `punctual serve`: its data folder, what it says, and how it stops.

use punctual_core::job::{JobState, NewJob};
use punctual_core::run::ErrorCode;
use punctual_core::target::Target;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The program, without what the environment of the tests may say to it.
pub(crate) fn punctual(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PUNCTUAL_")) {
        command.env_remove(name);
    }
    command
}

/// A server's arguments: a free port, so that servers do not meet.
fn serve<'a>(args: &[&'a str]) -> Command {
    let all: Vec<&'a str> = ["serve", "--listen", "127.0.0.1:0"].iter().chain(args).copied().collect();
    punctual(&all)
}

/// A server, killed when it is dropped, so that a failing test leaves nothing behind.
pub(crate) struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
    /// The line that it is ready.
    ready: String,
}

impl Server {
    /// A server with an API on a free port.
    pub(crate) fn on(args: &[&str]) -> Self {
        Self::start(&mut serve(args))
    }

    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with_log(command.stderr(Stdio::null()))
    }

    /// The same, with standard error as it is set up.
    pub(crate) fn start_with_log(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, said, ready: String::new() };
        server.ready = server.line();
        assert!(server.ready.starts_with("ready: "), "{}", server.ready);
        server
    }

    /// Where its API is.
    pub(crate) fn url(&self) -> &str {
        self.ready.split_once("API at ").unwrap().1
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn c08_a_server_owns_its_folder_tells_systemd_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let heard = || {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    // As systemd says it, with a second folder that is not ours.
    let state = folder.path().join("state");
    let folders = format!("{}:/nowhere", state.display());
    let mut command = serve(&["--name", "here"]);
    command.env("STATE_DIRECTORY", folders).env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut server = Server::start(&mut command);
    assert_eq!(heard(), "READY=1");
    assert_eq!(mode(&state), 0o700);
    let told = state.join("serve.json");
    let told_text: serde_json::Value = serde_json::from_slice(&std::fs::read(&told).unwrap()).unwrap();
    assert_eq!(told_text["pid"], server.child.id());
    assert_eq!(told_text["database"], format!("sqlite:{}", state.join("punctual.db").display()));
    assert_eq!(mode(&told), 0o600);

    let second = serve(&["--data", state.to_str().unwrap()]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(complaint.contains("another server runs on") && complaint.contains("--data"), "{complaint}");
    assert!(told.exists(), "the second one has changed nothing");

    server.terminate();
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!((server.line(), server.line()), ("stopping".to_owned(), "stopped".to_owned()));
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(!told.exists());
    // And one that was killed leaves nothing that is in the way of the next.
    let mut killed = Server::start(&mut serve(&["--data", state.to_str().unwrap()]));
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(told.exists());
    drop(Server::start(&mut serve(&["--data", state.to_str().unwrap()])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_server_says_what_it_waits_for_and_a_second_signal_means_now() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut server = Server::start(&mut serve(&["--data", data, "--grace", "1h"]));
    let store = punctual::open(&format!("sqlite:{data}/punctual.db")).await.unwrap();
    let job = store.enqueue_jobs(vec![NewJob::new(Target::command(["sleep", "3600"]))]).await.unwrap()[0];
    while store.job(job).await.unwrap().unwrap().state() != JobState::Running {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.terminate();
    assert_eq!(server.line(), "stopping: waiting for 1 running job (a second signal stops it now)");
    server.terminate();
    assert_eq!(server.line(), "stopped");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let run = store.run(job).await.unwrap().unwrap();
    assert_eq!((run.error_code, run.is_final), (Some(ErrorCode::Interrupted), false));
}

#[test]
fn c13_how_long_history_is_kept_is_said_in_words_that_are_checked() {
    for (args, complaint) in [
        (["worker", "--keep-runs", "soon"], "forever or none"),
        (["serve", "--keep-failed", "1y"], "keep-failed"),
        (["worker", "--keep-last", "many"], "keep-last"),
    ] {
        let refused = punctual(&args).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(words.contains(complaint), "{words}");
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let args = ["worker", "--data", data, "--keep-runs", "forever", "--keep-failed", "none", "--keep-last", "0"];
    drop(Server::start(&mut punctual(&args)));
}

#[test]
fn b10_a_server_below_a_path_is_found_there_by_links_and_by_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut command = serve(&["--data", data, "--base-path", "/tools/punctual/"]);
    let mut server = Server::start_with_log(command.stderr(Stdio::piped()));
    assert!(server.url().ends_with("/tools/punctual"), "{}", server.url());
    // Before it a program without pages says so.
    let lines = BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.into_iter().find(|line| line.contains("log in at")).unwrap();
    assert!(said.contains(&format!("log in at {}/#token=punctual_", server.url())), "{said}");
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("serve.json")).unwrap()).unwrap();
    assert_eq!(told["url"], server.url());
    for args in [&["queue", "ls", "--data", data][..], &["health", "--data", data]] {
        let output = punctual(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn b10_a_base_path_that_cannot_be_is_refused_with_what_to_write() {
    for wrong in ["punctual", "//punctual", "/api", "/a b"] {
        let output = serve(&["--base-path", wrong]).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {complaint}");
        assert!(complaint.contains("write it as /punctual"), "{complaint}");
    }
}

#[test]
fn b10_the_program_says_whether_it_has_a_dashboard() {
    let said = punctual(&["--version"]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some(concat!("punctual ", env!("CARGO_PKG_VERSION"))));
    let status = lines.next().and_then(|line| line.strip_prefix("dashboard: ")).unwrap();
    assert!(status == "built in" || status.starts_with("left out: "), "{said}");
    let short = punctual(&["-V"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&short.stdout).lines().count(), 1);
}
