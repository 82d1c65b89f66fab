//! The protocol's reader against real little programs.

use super::*;
use std::path::PathBuf;

const PATIENCE: Duration = Duration::from_secs(30);

fn start_with(script: &str, patience: Duration) -> Running {
    let command = ["sh", "-c", script, "contestant"].map(OsString::from);
    Running::start("sh", &command, &json!({"scenario": "drain", "jobs": 7}), patience).unwrap()
}

fn start(script: &str) -> Running {
    start_with(script, PATIENCE)
}

async fn error_of(script: &str) -> String {
    start(script).ready().await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_contestant_gets_the_request_and_is_heard_to_its_end() {
    let script = r#"
        echo "{\"event\":\"ready\",\"request\":$1}"
        read word
        echo "{\"event\":\"done\",\"word\":\"$word\"}"
        cat >/dev/null
    "#;
    let mut running = start(script);
    assert_eq!(running.ready().await.unwrap()["request"], json!({"scenario": "drain", "jobs": 7}));
    assert!(running.ready_after().is_some());
    running.go().await.unwrap();
    assert_eq!(running.done().await.unwrap()["word"], "go");
    assert!(running.peak_memory_kb().is_some_and(|kb| kb > 100), "{:?}", running.peak_memory_kb());
}

#[tokio::test]
async fn memory_is_that_of_all_its_processes() {
    let alone = r#"echo '{"event":"done"}'; cat >/dev/null"#;
    let many =
        r#"exec 3<&0; for n in 1 2 3 4; do cat <&3 >/dev/null & done; echo '{"event":"done"}'; cat >/dev/null; wait"#;
    let peak = async |script: &str| {
        let mut running = start(script);
        running.done().await.unwrap();
        running.peak_memory_kb().unwrap()
    };
    assert!(peak(many).await > peak(alone).await);
}

#[tokio::test]
async fn why_it_failed_is_told_with_what_it_said_on_stderr() {
    let error = error_of(r#"echo 'a hint' >&2; echo '{"event":"failed","why":"no table"}'; exit 1"#).await;
    assert!(error.contains("sh: no table") && error.contains("a hint"), "{error}");
}

#[tokio::test]
async fn an_early_end_is_an_error() {
    let error = error_of("echo 'out of cheese' >&2; exit 3").await;
    assert!(error.contains("ended before it said \"ready\"") && error.contains("out of cheese"), "{error}");
}

#[tokio::test]
async fn what_is_no_json_is_shown() {
    let error = error_of("echo 'Debugger attached.'; cat >/dev/null").await;
    assert!(error.contains("Debugger attached.") && error.contains("not JSON"), "{error}");
}

#[tokio::test]
async fn another_event_than_the_expected_is_an_error() {
    let error = error_of(r#"echo '{"event":"done"}'; cat >/dev/null"#).await;
    assert!(error.contains("\"ready\" was expected"), "{error}");
}

#[tokio::test]
async fn a_silent_one_is_stopped() {
    let mut running = start_with("echo 'still here' >&2; cat >/dev/null", Duration::from_millis(200));
    let error = running.ready().await.unwrap_err().to_string();
    assert!(error.contains("after 0.2 s") && error.contains("still here"), "{error}");
    running.child.wait().await.unwrap();
}

#[tokio::test]
async fn a_bad_end_behind_the_work_is_an_error() {
    let mut running = start(r#"echo '{"event":"done"}'; cat >/dev/null; exit 5"#);
    let error = running.done().await.unwrap_err().to_string();
    assert!(error.contains("exit status: 5"), "{error}");
}

#[tokio::test]
async fn it_does_not_outlive_who_started_it() {
    let mut running =
        start(r#"exec 3<&0; cat <&3 >/dev/null & echo "{\"event\":\"ready\",\"pid\":$!}"; cat >/dev/null"#);
    let child = running.ready().await.unwrap()["pid"].as_u64().unwrap();
    drop(running);
    let stat = PathBuf::from(format!("/proc/{child}/stat"));
    let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let begun = Instant::now();
    while !is_gone() {
        assert!(begun.elapsed() < PATIENCE, "the contestant's child still runs");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = Running::start("nobody", &["no-such-program".into()], &json!({}), PATIENCE).err().unwrap().to_string();
    assert!(error.contains("nobody") && error.contains("no-such-program"), "{error}");
}
