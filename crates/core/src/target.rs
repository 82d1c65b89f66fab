//! What a job does, as data; what does it for real stands behind a port in the engine.

mod command;
mod http;
mod sql;

pub use command::{Command, CommandInput, Limits};
pub use http::{Body, Http, Statuses};
pub use sql::Sql;

use crate::flow::{self, FlowDefinition};
use crate::invalid::Invalid;
use crate::job::Timeout;
use crate::name;
use crate::retry::RetryPolicy;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a job does. Stored as JSON with the job, so that a run is what was asked for when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// A program. Boxed as calls are: the others are small, and so are most jobs.
    Command(Box<Command>),
    /// An HTTP call.
    Http(Box<Http>),
    /// A SQL call on a named connection.
    Sql(Sql),
    /// A handler in the host program.
    Task(Task),
    /// A flow, by name.
    Flow(Flow),
    /// A graph of the execution service.
    Graph(Graph),
}

/// Reads targets as they were written, one after the other: most jobs of a batch have the same one, and understanding it
/// is the most costly part of reading a job.
#[derive(Debug, Default)]
pub struct TargetReader(Option<(String, Target)>);

impl TargetReader {
    /// The next one.
    pub fn read(&mut self, text: &str) -> Result<Target, Invalid> {
        if let Some((known, target)) = &self.0
            && known == text
        {
            return Ok(target.clone());
        }
        let target: Target = serde_json::from_str(text).map_err(|e| Invalid::new("target", e.to_string()))?;
        self.0 = Some((text.to_owned(), target.clone()));
        Ok(target)
    }
}

impl From<Command> for Target {
    fn from(command: Command) -> Self {
        Self::Command(Box::new(command))
    }
}

impl From<Http> for Target {
    fn from(http: Http) -> Self {
        Self::Http(Box::new(http))
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Target {
    /// A tagged enum is read into a buffer that cannot hold a document as it was written, and the definition of a flow
    /// is full of such documents. So a target that has one is read from its text.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Defined {
            kind: String,
            name: String,
            definition: Option<Box<FlowDefinition>>,
        }
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        let broken = |error: serde_json::Error| serde::de::Error::custom(error);
        if raw.get().contains("\"definition\"") {
            let Defined { kind, name, definition } = serde_json::from_str(raw.get()).map_err(broken)?;
            if kind == "flow" {
                return Ok(Self::Flow(Flow { name, definition }));
            }
        }
        Self::deserialize(&mut serde_json::Deserializer::from_str(raw.get())).map_err(broken)
    }
}

/// A handler in the host program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The name it was registered under.
    pub name: String,
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The flow's name.
    pub name: String,
    /// The steps, when they are not those that are stored under the name: a group of jobs that is made once, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Box<FlowDefinition>>,
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The graph's id, with its provider as prefix.
    pub id: String,
}

impl Target {
    /// A command without environment or folder.
    pub fn command<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self::from(Command { argv: argv.into_iter().map(Into::into).collect(), ..Command::default() })
    }

    /// A handler of the host program.
    pub fn task(name: impl Into<String>) -> Self {
        Self::Task(Task { name: name.into() })
    }

    /// A flow that is stored under a name.
    pub fn flow(name: impl Into<String>) -> Self {
        Self::Flow(Flow { name: name.into(), definition: None })
    }

    /// How long such a job may run unless somebody says otherwise.
    pub fn usual_timeout(&self) -> Timeout {
        if matches!(self, Self::Flow(_)) { flow::USUAL_TIMEOUT } else { Timeout::default() }
    }

    /// How such a job is tried again unless somebody says otherwise.
    pub fn usual_retry(&self) -> RetryPolicy {
        if matches!(self, Self::Flow(_)) { flow::usual_retry() } else { RetryPolicy::default() }
    }

    /// What it is, in one word of a closed set.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Http(_) => "http",
            Self::Sql(_) => "sql",
            Self::Task(_) => "task",
            Self::Flow(_) => "flow",
            Self::Graph(_) => "graph",
        }
    }

    /// The job type: what a node must offer to run it, and what limits per type count.
    ///
    /// Handlers and connections differ from node to node, so their names are part of it; every node that runs
    /// commands runs all commands.
    pub fn job_type(&self) -> String {
        match self {
            Self::Command(_) => "command".to_owned(),
            Self::Http(_) => "http".to_owned(),
            Self::Sql(sql) => format!("sql:{}", sql.connection),
            Self::Task(task) => format!("task:{}", task.name),
            Self::Flow(_) => "flow".to_owned(),
            Self::Graph(_) => "graph".to_owned(),
        }
    }

    /// What it does in one line of at most so many characters, for lists: the command, the call, the name.
    pub fn in_a_line(&self, most: usize) -> String {
        let words = match self {
            Self::Command(command) => command.argv.join(" "),
            Self::Http(http) => format!("{} {}", http.method, http.url),
            Self::Sql(sql) => {
                let what = sql.function.as_deref().or(sql.statement.as_deref()).unwrap_or_default();
                format!("{}:{what}", sql.connection)
            }
            Self::Task(task) => task.name.clone(),
            Self::Flow(flow) => flow.name.clone(),
            Self::Graph(graph) => graph.id.clone(),
        };
        let mut line: String = words.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c }).collect();
        if let Some((cut, _)) = line.char_indices().nth(most) {
            line.truncate(cut);
            line.push('…');
        }
        line
    }

    /// Refuses what could never run.
    pub fn validate(&self) -> Result<(), Invalid> {
        let named =
            |field: &str, text: &str| name::check(text).map_err(|e| Invalid { field: format!("target.{field}"), ..e });
        match self {
            Self::Command(command) => command.validate(),
            Self::Http(http) => http.validate(),
            Self::Sql(sql) => sql.validate(),
            Self::Task(task) => named("name", &task.name),
            Self::Flow(flow) => {
                named("name", &flow.name)?;
                let within = |e: Invalid| Invalid { field: format!("target.definition.{}", e.field), ..e };
                flow.definition.as_ref().map_or(Ok(()), |definition| definition.validate().map_err(within))
            }
            Self::Graph(graph) => named("id", &graph.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d06_targets_round_trip_and_refuse_unknown_fields() {
        let text = r#"{"kind":"command","argv":["backup.sh","--all"]}"#;
        let target: Target = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&target).unwrap(), text);
        let unknown = r#"{"kind":"command","argv":["x"],"shel":true}"#;
        assert!(serde_json::from_str::<Target>(unknown).unwrap_err().to_string().contains("shel"));
        assert!(serde_json::from_str::<Target>(r#"{"kind":"teleport"}"#).is_err());
    }

    #[test]
    fn d06_a_target_is_told_in_one_line() {
        assert_eq!(Target::command(["sh", "-c", "a\nb"]).in_a_line(40), "sh -c a b");
        assert_eq!(Target::command(["echo", "äöü"]).in_a_line(6), "echo ä…");
        assert_eq!(Target::from(Http::new("POST", "https://x.test/")).in_a_line(40), "POST https://x.test/");
        assert_eq!(Target::Sql(Sql::function("app", "close_day")).in_a_line(40), "app:close_day");
        assert_eq!(Target::task("mail").in_a_line(4), "mail");
        assert_eq!(Target::flow("nightly").in_a_line(40), "nightly");
    }

    #[test]
    fn d06_what_could_never_run_is_refused() {
        assert!(Target::command(Vec::<String>::new()).validate().is_err());
        assert!(Target::command(["a\0b"]).validate().is_err());
        assert!(Target::task("").validate().is_err());
    }
}
