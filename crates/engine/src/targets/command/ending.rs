//! What a command's end comes to: the run's outcome, its words, and what was used.

use super::child::{Ended, Ending};
use super::guard;
use punctual_core::execute::RunContext;
use punctual_core::json::Json;
use punctual_core::records::LogStream;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use punctual_core::target::Command;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Judges the end.
pub(super) fn judge(run: &RunContext, command: &Command, ending: Ending, said: &[u8]) -> FinishedRun {
    match ending {
        Ending::Ended(ended) => judge_ended(run, ended, said),
        Ending::NotStarted { stage, errno } => {
            run.failed(ErrorCode::TargetError, why_not_started(command, stage, errno))
        }
        Ending::Unguarded => run.failed(ErrorCode::Internal, "the process that watched over the command was killed"),
    }
}

fn judge_ended(run: &RunContext, ended: Ended, said: &[u8]) -> FinishedRun {
    let status = ExitStatus::from_raw(ended.status);
    let exit = in_words(status);
    if ended.left_behind > 0 {
        let words = format!("{} processes were still running when it had ended, and were killed", ended.left_behind);
        run.log(LogStream::System, words);
    }
    let end = if status.success() {
        run.completed(returned(said))
    } else {
        FinishedRun { output: returned(said), ..run.failed(ErrorCode::TargetError, exit.as_str()) }
    };
    FinishedRun { exit_code: status.code(), usage: usage(ended, &exit), ..end }
}

/// How it ended, as people say it.
fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => {
            let dumped = if status.core_dumped() { ", core dumped" } else { "" };
            format!("killed by signal {signal} ({}){dumped}", signal_name(signal))
        }
        (None, None) => status.to_string(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU, its limit of processor time",
        libc::SIGXFSZ => "SIGXFSZ, its limit of file size",
        libc::SIGSYS => "SIGSYS",
        _ => "unnamed",
    }
}

/// What was used by the command and everything below it.
fn usage(ended: Ended, exit: &str) -> Option<Json> {
    let used = serde_json::json!({
        "exit": exit,
        "cpu_user_ms": ended.user_us / 1000,
        "cpu_system_ms": ended.system_us / 1000,
        "max_memory_bytes": ended.max_memory_kib.saturating_mul(1024),
        "processes_left_behind": ended.left_behind,
    });
    Json::from_value("usage", &used).ok()
}

fn why_not_started(command: &Command, stage: i64, errno: i32) -> String {
    let program = command.argv.first().map_or("", String::as_str);
    let why = std::io::Error::from_raw_os_error(errno);
    match stage {
        guard::AT_EXEC if errno == libc::ENOENT => {
            format!(
                "cannot start `{program}`: there is no such program, or the interpreter in its first line is missing"
            )
        }
        guard::AT_EXEC if errno == libc::ENOEXEC => {
            format!("cannot start `{program}`: it is no program; begin a script with a line such as #!/bin/sh")
        }
        guard::AT_EXEC if errno == libc::E2BIG => {
            format!("cannot start `{program}`: its arguments and environment are too large; pass them as input")
        }
        guard::AT_FOLDER => {
            format!("cannot start `{program}` in the folder `{}`: {why}", command.cwd.as_deref().unwrap_or("."))
        }
        guard::AT_USER => {
            let user = command.user.as_deref().unwrap_or_default();
            format!("cannot start `{program}` as the user `{user}`: {why}; the node must run as root for that")
        }
        guard::AT_LIMITS => format!("cannot limit `{program}`: {why}; a limit cannot be above the node's own"),
        _ => format!("cannot start `{program}`: {why}"),
    }
}

/// What a command said: the document, if it is an object or a list of JSON, else the text.
fn returned(said: &[u8]) -> Option<Json> {
    let text = String::from_utf8_lossy(said);
    let text = text.trim_end().replace('\0', "\u{fffd}");
    if text.trim_start().starts_with(['{', '['])
        && let Ok(document) = Json::parse("output", &text)
    {
        return Some(document);
    }
    if text.is_empty() { None } else { Json::from_value("output", &text).ok() }
}
