//! What a command is: a program with its arguments, and the world it runs in.

use crate::duration;
use crate::invalid::Invalid;
use crate::name;
use crate::secret::Value;
use crate::words::words;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// How a command gets its job's input.
    #[derive(Default)]
    pub enum CommandInput as "command input" {
        /// As JSON on its standard input.
        #[default]
        Stdin = "stdin",
        /// As a JSON file, whose path is in `PUNCTUAL_INPUT`.
        File = "file",
        /// Not at all.
        None = "none",
    }
}

/// A program and its arguments; no shell stands between, unless it is asked for.
///
/// ```
/// use punctual_core::target::Command;
/// let text = r#"{"argv":["pg_dump","shop"],"env":{"PGPASSWORD":{"secret":"env:SHOP_PASSWORD"}},"artifacts":"out"}"#;
/// let command: Command = serde_json::from_str(text).unwrap();
/// assert!(command.validate().is_ok());
/// assert_eq!(serde_json::to_string(&command).unwrap(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments. With `shell`, a script and its arguments.
    pub argv: Vec<String>,
    /// Whether `/bin/sh` runs the first of `argv` as a script. Whatever is pasted into that text is run, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shell: bool,
    /// Variables beside the allow-list: texts, or references to secrets of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Value>,
    /// The folder it runs in; without it, an empty one that is gone afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How it gets its job's input.
    #[serde(default, skip_serializing_if = "is_default")]
    pub input: CommandInput,
    /// A folder whose files are kept with the run, seen from where it runs; its path is in `PUNCTUAL_ARTIFACTS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<String>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// Whom it runs as, by name or number; the node must be allowed to do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What one process of a command may use, as the system counts it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processor time, in whole seconds.
    #[serde(default, with = "duration::optional_text", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<SignedDuration>,
    /// Address space, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The largest file it may write, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Files that are open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Processes of its user at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Command {
    /// Refuses what could never run.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self.argv.first() {
            None => return Err(Invalid::new("target.argv", "is empty").remedy("give the program and its arguments")),
            Some(program) if program.is_empty() => {
                return Err(Invalid::new("target.argv", "names an empty program").remedy("give the program's path"));
            }
            Some(_) if self.argv.iter().any(|a| a.contains('\0')) => {
                return Err(Invalid::new("target.argv", "holds a NUL character").remedy("remove it"));
            }
            Some(_) => {}
        }
        for (name, value) in &self.env {
            check_variable(name)?;
            value.validate(&format!("target.env.{name}"))?;
        }
        let paths = [("target.cwd", &self.cwd), ("target.artifacts", &self.artifacts), ("target.user", &self.user)];
        for (field, text) in paths.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?))) {
            name::check_text(field, text)?;
            if text.is_empty() {
                return Err(Invalid::new(field, "is empty").remedy("leave it out"));
            }
        }
        self.limits.cpu.map_or(Ok(()), |cpu| duration::check("target.limits.cpu", cpu))
    }
}

fn check_variable(name: &str) -> Result<(), Invalid> {
    let field = "target.env";
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Invalid::new(field, format!("`{name}` cannot name a variable")).remedy("use letters, digits and _"));
    }
    if name.starts_with("PUNCTUAL_") {
        let remedy = "choose another name; those are set by Punctual itself";
        return Err(Invalid::new(field, format!("`{name}` is taken")).remedy(remedy));
    }
    name::check_text(field, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Command {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn c13_every_part_of_a_command_round_trips() {
        let text = concat!(
            r#"{"argv":["echo \"$1\"","x"],"shell":true,"env":{"A":"b"},"cwd":"/srv","input":"file","artifacts":"out","#,
            r#""limits":{"cpu":"10s","memory_bytes":1,"file_bytes":2,"open_files":3,"processes":4},"user":"nobody"}"#
        );
        assert_eq!(serde_json::to_string(&command(text)).unwrap(), text);
        assert_eq!(command(text).validate(), Ok(()));
        assert!(serde_json::from_str::<Command>(r#"{"argv":["x"],"limits":{"cpus":1}}"#).is_err());
    }

    #[test]
    fn c13_what_could_never_be_started_is_refused_by_its_field() {
        for (text, field) in [
            (r#"{"argv":[]}"#, "target.argv"),
            (r#"{"argv":[""]}"#, "target.argv"),
            (r#"{"argv":["a\u0000b"]}"#, "target.argv"),
            (r#"{"argv":["x"],"env":{"":"1"}}"#, "target.env"),
            (r#"{"argv":["x"],"env":{"A=B":"1"}}"#, "target.env"),
            (r#"{"argv":["x"],"env":{"PUNCTUAL_JOB_ID":"1"}}"#, "target.env"),
            (r#"{"argv":["x"],"env":{"A":{"secret":"b"}}}"#, "target.env.A"),
            (r#"{"argv":["x"],"cwd":""}"#, "target.cwd"),
            (r#"{"argv":["x"],"artifacts":"a\u0000"}"#, "target.artifacts"),
        ] {
            assert_eq!(command(text).validate().unwrap_err().field, field, "{text}");
        }
        let timeless = serde_json::from_str::<Command>(r#"{"argv":["x"],"limits":{"cpu":"0s"}}"#);
        assert!(timeless.unwrap_err().to_string().contains("zero"));
    }
}
