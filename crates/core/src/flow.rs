//! Flows: a graph of steps, each a target, that follow one another and pass on what they return (C15, D06).
//!
//! A flow is run by a job like any other. When a node takes it, its first steps become jobs, and the flow goes on
//! without the node: whoever finishes a step makes the jobs of the steps that follow, in the same transaction. So
//! there is no moment at which a crash could strand it. What follows from what is decided by [`progress`] alone.

mod filling;
mod moves;
mod port;
pub mod progress;

pub use port::{Flow, FlowItem, FlowLink, FlowRun, FlowStep, Flows, FlowsAdvanced};

use crate::expression;
use crate::id::GrantId;
use crate::invalid::Invalid;
use crate::job::{Timeout, check_tags};
use crate::json::Json;
use crate::name::{self, Name};
use crate::retry::RetryPolicy;
use crate::run::Outcome;
use crate::store::StoreError;
use crate::target::Target;
use crate::words::words;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most steps of a flow.
pub const STEPS_MAX: usize = 256;

/// The most items that a step is run for.
pub const ITEMS_MAX: usize = 100_000;

/// How many items of a step are under way at once unless it says otherwise, and at most.
pub const ITEMS_AT_ONCE: u32 = 100;
const ITEMS_AT_ONCE_MAX: u32 = 1_000;

/// How deep flows may be nested.
pub const DEPTH_MAX: u32 = 16;

words! {
    /// What the failure of a step means for the others.
    pub enum OnFailure as "on_failure" {
        /// Nothing more is started; what runs comes to its end; the flow has failed.
        Stop = "stop",
        /// The flow goes on as if the step had returned nothing, and the failure does not count against it.
        Continue = "continue",
        /// Steps that need it are skipped, all others go on; the flow has failed at the end.
        Skip = "skip",
    }
}

words! {
    /// Which steps follow which.
    pub enum StepOrder as "order" {
        /// As their `after` says; all at once where it says nothing.
        Graph = "graph",
        /// One after the other, as they are written.
        Sequential = "sequential",
    }
}

/// What a user says about a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowDefinition {
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Which steps follow which.
    #[serde(default = "graph", skip_serializing_if = "is_graph")]
    pub order: StepOrder,
    /// Its steps.
    pub steps: Vec<Step>,
    /// What it returns, with values filled in; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
}

fn graph() -> StepOrder {
    StepOrder::Graph
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_graph(order: &StepOrder) -> bool {
    *order == StepOrder::Graph
}

/// One step of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name within the flow: letters, digits and `_`.
    pub name: String,
    /// What it does.
    pub target: Target,
    /// What it is given, with values filled in: `{{ input.x }}`, `{{ steps.a.output.y }}`, `{{ item }}`. The flow's own
    /// input when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// The steps that must be done before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// It is skipped unless this is true, such as `steps.a.output.rows > 0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// It is run once for each item of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<FanOut>,
    /// What its failure means for the others.
    #[serde(default = "stop")]
    pub on_failure: OnFailure,
    /// The queue its jobs go to; the flow's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The priority of its jobs; the flow's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Resource tags that limits count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How it is tried again; as usual when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long it may run; as usual when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// The grant it runs under; the flow's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<GrantId>,
}

fn stop() -> OnFailure {
    OnFailure::Stop
}

/// A step that is run once for each item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// What the list is, such as `steps.a.output.files`.
    pub over: String,
    /// How many items are under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl FanOut {
    /// How many items are under way at once.
    pub fn at_once(&self) -> u32 {
        self.limit.unwrap_or(ITEMS_AT_ONCE)
    }
}

impl Step {
    /// A step with the usual policies.
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            input: None,
            after: Vec::new(),
            when: None,
            map: None,
            on_failure: OnFailure::Stop,
            queue: None,
            priority: None,
            tags: Vec::new(),
            retry: None,
            timeout: None,
            grant_id: None,
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        self.target.validate()?;
        self.input.as_ref().map_or(Ok(()), |input| input.check("input"))?;
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::validate)?;
        self.timeout.map_or(Ok(()), Timeout::validate)?;
        if let Some(queue) = &self.queue {
            name::check(queue).map_err(|e| Invalid { field: "queue".into(), ..e })?;
        }
        check_tags(&self.tags)?;
        match self.map.as_ref().and_then(|map| map.limit) {
            Some(limit) if !(1..=ITEMS_AT_ONCE_MAX).contains(&limit) => {
                Err(Invalid::new("map.limit", format!("is not between 1 and {ITEMS_AT_ONCE_MAX}"))
                    .remedy("say how many items may be under way at once"))
            }
            _ => Ok(()),
        }
    }
}

impl FlowDefinition {
    /// Steps that all start at once.
    pub fn parallel(steps: Vec<Step>) -> Self {
        Self { description: String::new(), order: StepOrder::Graph, steps, output: None }
    }

    /// Steps that follow one another as they are written.
    pub fn sequential(steps: Vec<Step>) -> Self {
        Self { order: StepOrder::Sequential, ..Self::parallel(steps) }
    }

    /// The names of the steps before a step, the nearest ones.
    fn names_before(&self, step: usize) -> Vec<&str> {
        let own = self.steps[step].after.iter().map(String::as_str);
        let previous = (self.order == StepOrder::Sequential && step > 0).then(|| self.steps[step - 1].name.as_str());
        own.chain(previous).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Which steps come directly before each. The definition has been checked.
    pub fn before(&self) -> Vec<Vec<usize>> {
        let at: BTreeMap<&str, usize> =
            self.steps.iter().enumerate().map(|(n, step)| (step.name.as_str(), n)).collect();
        let known = |n: usize| self.names_before(n).into_iter().filter_map(|name| at.get(name).copied()).collect();
        (0..self.steps.len()).map(known).collect()
    }

    /// Refuses what could never run, and says where it is.
    ///
    /// ```
    /// use punctual_core::{flow::{FlowDefinition, Step}, target::Target};
    /// let step = |name: &str, after: &str| Step { after: vec![after.into()], ..Step::new(name, Target::task("t")) };
    /// let refused = FlowDefinition::parallel(vec![step("a", "b"), step("b", "a")]).validate().unwrap_err();
    /// assert!(refused.to_string().contains("a -> b -> a"), "{refused}");
    /// ```
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check_text("description", &self.description)?;
        if self.steps.is_empty() || self.steps.len() > STEPS_MAX {
            return Err(Invalid::new("steps", format!("are none, or more than {STEPS_MAX}"))
                .remedy("give it a step, or put some of the steps into a flow of their own"));
        }
        let names = self.check_names()?;
        for (n, step) in self.steps.iter().enumerate() {
            step.check().map_err(|refused| at_step(n, refused))?;
            for (m, other) in step.after.iter().enumerate() {
                if !names.contains(other.as_str()) {
                    let known: Vec<&str> = names.iter().copied().collect();
                    return Err(Invalid::new(format!("steps[{n}].after[{m}]"), format!("there is no step `{other}`"))
                        .remedy(format!("use one of: {}", known.join(", "))));
                }
            }
        }
        self.check_cycles()?;
        self.check_references()
    }

    fn check_names(&self) -> Result<BTreeSet<&str>, Invalid> {
        let mut names = BTreeSet::new();
        for (n, step) in self.steps.iter().enumerate() {
            let text = step.name.as_str();
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if text.is_empty()
                || text.len() > 64
                || !text.chars().all(fits)
                || text.starts_with(|c: char| c.is_ascii_digit())
            {
                return Err(Invalid::new(format!("steps[{n}].name"), "is no name of a step")
                    .remedy("use 1 to 64 letters, digits and _, a letter first"));
            }
            if !names.insert(text) {
                return Err(Invalid::new(format!("steps[{n}].name"), format!("`{text}` is there twice"))
                    .remedy("give each step a name of its own"));
            }
        }
        Ok(names)
    }

    /// Walks back from each step; who meets himself is on a cycle.
    fn check_cycles(&self) -> Result<(), Invalid> {
        let before = self.before();
        let mut done = vec![false; self.steps.len()];
        for start in 0..self.steps.len() {
            let mut path: Vec<(usize, usize)> = vec![(start, 0)];
            while let Some((step, next)) = path.last_mut() {
                let (step, at) = (*step, *next);
                *next += 1;
                match before[step].get(at) {
                    Some(other) if path.iter().any(|(on, _)| on == other) => return Err(self.cycle(&path, *other)),
                    Some(other) if !done[*other] => path.push((*other, 0)),
                    Some(_) => {}
                    None => {
                        done[step] = true;
                        path.pop();
                    }
                }
            }
        }
        Ok(())
    }

    fn cycle(&self, path: &[(usize, usize)], met: usize) -> Invalid {
        let name = |step: usize| self.steps[step].name.as_str();
        let from = path.iter().position(|(on, _)| *on == met).unwrap_or(0);
        // The path leads back in time, so the cycle is told the other way round, from its first step in the text.
        let mut round: Vec<usize> = path[from..].iter().map(|(on, _)| *on).rev().collect();
        let first = round.iter().enumerate().min_by_key(|(_, on)| **on).map_or(0, |(at, _)| at);
        round.rotate_left(first);
        let mut names: Vec<&str> = round.iter().map(|on| name(*on)).collect();
        names.push(names[0]);
        Invalid::new(format!("steps[{}].after", round[0]), format!("the steps form a circle: {}", names.join(" -> ")))
            .remedy("take one of these out of an `after`")
    }

    /// All steps before each, near and far.
    fn ancestors(&self) -> Vec<BTreeSet<usize>> {
        let before = self.before();
        let mut all: Vec<Option<BTreeSet<usize>>> = vec![None; before.len()];
        while all.iter().any(Option::is_none) {
            for step in 0..before.len() {
                let known: Option<Vec<&BTreeSet<usize>>> = before[step].iter().map(|n| all[*n].as_ref()).collect();
                if let (None, Some(known)) = (&all[step], known) {
                    let far = known.into_iter().flatten().copied().collect::<BTreeSet<_>>();
                    all[step] = Some(far.into_iter().chain(before[step].iter().copied()).collect());
                }
            }
        }
        all.into_iter().flatten().collect()
    }

    /// Every value that is asked for must be there by then.
    fn check_references(&self) -> Result<(), Invalid> {
        let ancestors = self.ancestors();
        for (n, step) in self.steps.iter().enumerate() {
            let known = |other: &str| ancestors[n].iter().any(|before| self.steps[*before].name == other);
            let item = step.map.is_some();
            for (field, names) in step_names(step).map_err(|refused| at_step(n, refused))? {
                let of_items = item && field == "input";
                check_names(&names, of_items, known)
                    .map_err(|why| Invalid { field: format!("steps[{n}].{field}"), ..why })?;
            }
        }
        if let Some(output) = &self.output {
            let known = |other: &str| self.steps.iter().any(|step| step.name == other);
            check_names(&filling::names_in(output, "output")?, false, known)
                .map_err(|why| Invalid { field: "output".into(), ..why })?;
        }
        Ok(())
    }
}

fn at_step(step: usize, refused: Invalid) -> Invalid {
    Invalid { field: format!("steps[{step}].{}", refused.field), ..refused }
}

/// Whether a name such as `steps.a.output.rows` asks for what a step returned.
fn is_output_of(name: &str, step: &str) -> bool {
    let mut parts = name.split('.');
    parts.next() == Some("steps") && parts.next() == Some(step) && parts.next().is_none_or(|part| part == "output")
}

/// The values that each field of a step asks for.
fn step_names(step: &Step) -> Result<Vec<(&'static str, BTreeSet<String>)>, Invalid> {
    let expression = |field: &'static str, text: &str| {
        expression::names_in_expression(text)
            .map(|names| (field, names))
            .map_err(|why| Invalid::new(field, why).remedy("write an expression, such as steps.a.output.rows > 0"))
    };
    let mut fields = Vec::new();
    if let Some(input) = &step.input {
        fields.push(("input", filling::names_in(input, "input")?));
    }
    if let Some(when) = &step.when {
        fields.push(expression("when", when)?);
    }
    if let Some(map) = &step.map {
        fields.push(expression("map.over", &map.over)?);
    }
    Ok(fields)
}

fn check_names(names: &BTreeSet<String>, item: bool, known: impl Fn(&str) -> bool) -> Result<(), Invalid> {
    for name in names {
        let parts: Vec<&str> = name.split('.').collect();
        let field = |problem: String| Invalid::new("", problem);
        match parts.as_slice() {
            ["input", ..] => {}
            ["item" | "index", ..] if item => {}
            ["item" | "index", ..] => {
                return Err(field(format!("`{name}` has no meaning here"))
                    .remedy("it is there in the input of a step with `map`"));
            }
            ["steps", step, "output" | "outcome", ..] if known(step) => {}
            ["steps", step, "output" | "outcome", ..] => {
                return Err(field(format!("`{name}` asks for a step that is not done by then"))
                    .remedy(format!("name an earlier step, or add `{step}` to `after`")));
            }
            ["steps", ..] => {
                return Err(field(format!("`{name}` does not say what it asks for"))
                    .remedy("write steps.NAME.output or steps.NAME.outcome"));
            }
            _ => {
                return Err(
                    field(format!("there is no `{name}`")).remedy("use input, steps.NAME.output, item or index")
                );
            }
        }
    }
    Ok(())
}

/// The refusal to retry a step by itself.
pub fn step_not_retried(outcome: Outcome) -> StoreError {
    let remedy = "it is a step of a flow; retry the flow's own job, and it goes on from the step that failed";
    StoreError::WrongState { state: outcome.into(), remedy }
}

impl Flow {
    /// Whether a definition may be stored under a name.
    pub fn check_save(
        stored: Option<&Self>, name: &Name, owner: Option<&str>, if_version: Option<i64>,
    ) -> Result<(), StoreError> {
        let found = stored.map_or(0, |flow| flow.version);
        match if_version {
            Some(0) if found > 0 => return Err(StoreError::NameTaken { what: "flow", name: name.to_string() }),
            Some(expected) if expected != found => return Err(StoreError::VersionConflict { expected, found }),
            _ => {}
        }
        match stored {
            Some(flow) if owner.is_some() && flow.owner.as_deref() != owner => {
                Err(StoreError::NameTaken { what: "flow", name: name.to_string() })
            }
            _ => Ok(()),
        }
    }
}

/// How long a flow may take as a whole: for ever, because each of its steps has a timeout.
pub(crate) const USUAL_TIMEOUT: Timeout = Timeout::Never;

/// How a flow as a whole is tried again: not at all, because each of its steps is; but a node that is lost while it
/// begins costs nothing.
pub(crate) fn usual_retry() -> RetryPolicy {
    RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }
}

#[cfg(test)]
mod tests;
