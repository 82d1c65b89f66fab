//! What a command is given, and what becomes of how it ends.

use super::*;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::secret::Value;
use punctual_core::store::Cancelled;
use punctual_core::target::{CommandInput, Limits};
use punctual_core::trace::{SpanId, TraceId};

#[tokio::test]
async fn c13_a_command_sees_a_cleared_environment_and_an_empty_folder_of_its_own() {
    let commands = Commands::new();
    let own = Command { env: [("OWN".to_owned(), Value::from("a b"))].into(), ..argv(["env"]) };
    let traced = NewJob { trace_context: Some("00-trace-01".to_owned()), ..job(own) };
    let (id, run) = commands.run(traced).await;
    assert_eq!((run.outcome, run.exit_code), (Outcome::Completed, Some(0)));
    let names: Vec<_> = commands
        .said(id, LogStream::Stdout)
        .await
        .iter()
        .map(|line| line.split('=').next().unwrap().to_owned())
        .collect();
    let allowed = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];
    let told: Vec<_> = names.iter().map(String::as_str).filter(|name| !allowed.contains(name)).collect();
    assert_eq!(told, ["OWN", "PUNCTUAL_ATTEMPT", "PUNCTUAL_JOB_ID", "PUNCTUAL_RUN_ID", "TRACEPARENT"]);
    let lines = commands.said(id, LogStream::Stdout).await;
    assert!(lines.contains(&format!("PUNCTUAL_RUN_ID={id}")) && lines.contains(&"PUNCTUAL_ATTEMPT=1".to_owned()));
    let trace_id = TraceId::of_chain(id);
    // What was given is no trace context, and is replaced by one.
    let own_trace = format!("TRACEPARENT=00-{trace_id}-{}-01", SpanId::of_run(id));
    assert!(lines.contains(&"OWN=a b".to_owned()) && lines.contains(&own_trace), "{lines:?}");
    let (id, _) = commands.run(job(script("pwd; ls -A | wc -l; echo x > made"))).await;
    let said = commands.said(id, LogStream::Stdout).await;
    assert!(said[0].contains(&id.to_string()), "{said:?}");
    assert_eq!(said[1].trim(), "0");
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_input_comes_on_stdin_or_as_a_file_or_not_at_all() {
    let commands = Commands::new();
    let input = r#"{"customer":7,"text":"ü"}"#;
    let (id, _) = commands.run(with_input(job(argv(["cat"])), input)).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, [input]);
    let file = Command { input: CommandInput::File, ..script("cat \"$PUNCTUAL_INPUT\"; cat") };
    let (id, _) = commands.run(with_input(job(file), input)).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, [input]);
    let none = Command { input: CommandInput::None, ..script("echo \"[$(cat)${PUNCTUAL_INPUT}]\"") };
    let (id, _) = commands.run(with_input(job(none), input)).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["[]"]);
    // Whoever does not read its input, however long, is not held up by it.
    let long = format!("\"{}\"", "x".repeat(500_000));
    let (_, run) = commands.run(with_input(job(argv(["true"])), &long)).await;
    assert_eq!(run.outcome, Outcome::Completed);
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_no_shell_stands_between_unless_it_is_asked_for() {
    let commands = Commands::new();
    let (id, _) = commands.run(job(argv(["echo", "$HOME; `id` * \"quoted\""]))).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["$HOME; `id` * \"quoted\""]);
    let asked = Command { shell: true, ..argv(["echo \"$0:$1:$((1 + 1))\"", "a b"]) };
    let (id, _) = commands.run(job(asked)).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["sh:a b:2"]);
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_how_a_command_ended_is_recorded() {
    let commands = Commands::new();
    for (text, code, words) in [
        ("exit 3", Some(3), "exit code 3"),
        ("kill -KILL $$", None, "signal 9 (SIGKILL)"),
        ("kill -ABRT $$", None, "signal 6 (SIGABRT)"),
    ] {
        let (_, run) = commands.run(job(script(text))).await;
        assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::TargetError)), "{text}");
        assert_eq!(run.exit_code, code, "{text}");
        assert!(run.error.unwrap().contains(words), "{text}");
    }
    let (id, run) = commands.run(job(script("echo out; echo err >&2; printf 'no end'"))).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["out", "no end"]);
    assert_eq!(commands.said(id, LogStream::Stderr).await, ["err"]);
    assert_eq!(run.output.unwrap().as_str(), r#""out\nno end""#);
    for (said, returned) in [(r#"{"n": 1.50}"#, r#"{"n": 1.50}"#), ("[1,", r#""[1,""#), ("5", r#""5""#)] {
        let (_, run) = commands.run(job(script(&format!("echo '{said}'")))).await;
        assert_eq!(run.output.unwrap().as_str(), returned, "{said}");
    }
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_what_cannot_be_started_says_why() {
    let commands = Commands::new();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "echo x").unwrap();
    let broken = folder.path().join("broken");
    fs::write(&broken, "just words").unwrap();
    fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let at = |path: &std::path::Path| argv([path.to_str().unwrap()]);
    for (command, words) in [
        (argv(["no-such-program-here"]), "no such program"),
        (argv(["/no/such/program"]), "no such program"),
        (at(&plain), "Permission denied"),
        (at(&broken), "#!/bin/sh"),
        (Command { cwd: Some("/no/such/folder".into()), ..argv(["true"]) }, "/no/such/folder"),
        (Command { artifacts: Some("/proc/no".into()), ..argv(["true"]) }, "/proc/no"),
        (Command { user: Some("no-such-user-here".into()), ..argv(["true"]) }, "not known"),
    ] {
        let (_, run) = commands.run(job(command)).await;
        let error = run.error.unwrap();
        assert!(error.contains(words), "{error}");
        let code = if words == "not known" { ErrorCode::TargetRejected } else { ErrorCode::TargetError };
        assert_eq!((run.error_code, run.exit_code), (Some(code), None), "{error}");
    }
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_a_command_runs_as_another_user_where_the_node_may_do_that() {
    let commands = Commands::new();
    let text = "id -u; id -g; echo $HOME:$USER; touch here && rm here && echo may write";
    let (id, run) = commands.run(job(Command { user: Some("nobody".into()), ..script(text) })).await;
    // SAFETY-free way to know who we are: the owner of our own process.
    let root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
    if root {
        let said = commands.said(id, LogStream::Stdout).await;
        assert_eq!((said[0].as_str(), said[3].as_str()), ("65534", "may write"), "{said:?}");
        assert!(said[2].ends_with(":nobody"), "{said:?}");
    } else {
        assert!(run.error.unwrap().contains("must run as root"));
    }
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_limits_end_what_goes_beyond_them() {
    let commands = Commands::new();
    let limited = |text: &str, limits: Limits| job(Command { limits, ..script(text) });
    let cpu = Limits { cpu: Some(SignedDuration::from_millis(500)), ..Limits::default() };
    let (_, run) = commands.run(limited("while :; do :; done", cpu)).await;
    assert!(run.error.as_deref().unwrap().contains("signal 9") || run.error.as_deref().unwrap().contains("SIGXCPU"));
    let file = Limits { file_bytes: Some(1000), ..Limits::default() };
    let (_, run) = commands.run(limited("head -c 2000 /dev/zero > large", file)).await;
    assert_eq!(run.outcome, Outcome::Failed);
    let memory = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let (_, run) = commands.run(limited("x=$(head -c 200000000 /dev/zero | tr '\\0' x)", memory)).await;
    assert_eq!(run.outcome, Outcome::Failed);
    let files = Limits { open_files: Some(5), ..Limits::default() };
    let (id, _) = commands.run(limited("ulimit -n", files)).await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["5"]);
    commands.leave_nothing().await;
}

/// The node's own memory must not count as the command's.
#[tokio::test]
async fn c13_what_a_command_used_is_its_own() {
    let ballast = vec![1u8; 300 << 20];
    let commands = Commands::new();
    let (_, run) = commands.run(job(argv(["true"]))).await;
    let memory = used(&run, "max_memory_bytes");
    assert!((100 << 10..50 << 20).contains(&memory), "{memory} bytes");
    assert_eq!(used(&run, "processes_left_behind"), 0);
    let (_, run) = commands.run(job(script("head -c 100000000 /dev/zero | tail -c 90000000 > /dev/null"))).await;
    let memory = used(&run, "max_memory_bytes");
    assert!((80 << 20..250 << 20).contains(&memory), "{memory} bytes");
    assert!(used(&run, "cpu_user_ms") + used(&run, "cpu_system_ms") > 0);
    commands.leave_nothing().await;
    assert_eq!(ballast[300 << 19], 1);
}

#[tokio::test]
async fn c07_a_cancelled_command_may_clean_up() {
    let commands = Commands::new();
    let polite = "trap 'echo cleaning up; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let id = commands.enqueue(job(script(polite))).await;
    commands.until_said(id, "ready").await;
    assert_eq!(commands.world.store.cancel_job(id).await.unwrap(), Cancelled::Requested);
    let run = commands.end(id).await;
    // It says itself that it completed, so that this is what it did.
    assert_eq!((run.outcome, run.exit_code), (Outcome::Completed, Some(0)));
    assert!(commands.said(id, LogStream::Stdout).await.contains(&"cleaning up".to_owned()));
    let id = commands.enqueue(job(script("echo ready; sleep 1000"))).await;
    commands.until_said(id, "ready").await;
    commands.world.store.cancel_job(id).await.unwrap();
    let run = commands.end(id).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
    commands.leave_nothing().await;
}
