//! Starting other programs, so that every failure names the command that failed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// The repository's root. Cargo tells it at run time, so that a binary built in one checkout and
/// run in another (a shared target folder) works on the one it was started in.
pub fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|dir| Path::new(&dir).parent().map(Path::to_path_buf))
        .unwrap_or_else(|| PathBuf::from("."))
}

/// A command that will run in the repository's root.
pub fn command<I, S>(program: &str, args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

pub fn cargo<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    // The cargo that started us is the one with the right toolchain.
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), args)
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| {
        let arg = arg.to_string_lossy();
        if arg.contains([' ', '(', '|']) { format!("'{arg}'") } else { arg.into_owned() }
    }));
    words.join(" ")
}

/// Shows and runs a command; its exit status is the caller's to judge.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    println!("$ {}", shown(command));
    command.status().with_context(|| format!("start `{}`", shown(command)))
}

/// Shows and runs a command that must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command quietly and returns what it printed; it must succeed.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({})\n{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("read what `{}` printed", shown(command)))
}

/// Shows and runs a command, passing its standard output through and keeping a copy.
pub fn tee(command: &mut Command) -> Result<(ExitStatus, String)> {
    println!("$ {}", shown(command));
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("start `{}`", shown(command)))?;
    let stdout = child.stdout.take().context("take the child's standard output")?;
    let mut kept = String::new();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("read the child's standard output")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(std::io::stdout(), "{line}").context("pass the child's output on")?;
        kept.push_str(&line);
        kept.push('\n');
    }
    Ok((child.wait().context("wait for the child")?, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_arguments() {
        let error = run(&mut command("false", ["a b", "c"])).unwrap_err().to_string();
        assert!(error.starts_with("`false 'a b' c` failed"), "{error}");
    }

    #[test]
    fn tee_keeps_what_was_printed_and_the_exit_code() {
        let (status, text) = tee(&mut command("sh", ["-c", "echo one; echo two; exit 3"])).unwrap();
        assert_eq!((status.code(), text.as_str()), (Some(3), "one\ntwo\n"));
    }
}
