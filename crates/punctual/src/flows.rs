//! Flows from a program: steps that follow one another and pass on what they return.

use crate::enqueue::{Enqueue, signed};
use crate::{FlowRun, JobId, OnFailure, Punctual, Result, RetryPolicy, Target};
use punctual_core::flow::{FanOut, Flow as Stored, FlowDefinition, Step};
use punctual_core::invalid::Invalid;
use punctual_core::job::Timeout;
use punctual_core::json::Json;
use punctual_core::name::Name;
use serde::Serialize;
use std::time::Duration;

/// A flow that is being put together: steps, each a target, and which of them follow which.
///
/// What is said after [`step`](Self::step) is about that step. A step is given the flow's input unless it says what
/// else; `{{ steps.NAME.output }}` is what an earlier one returned.
///
/// ```
/// # punctual::testing::block_on(async {
/// use punctual::{Context, Flow, Target, TaskError, testing::TestPunctual};
///
/// let test = TestPunctual::new().await?;
/// test.task("extract", |_: Context, days: u32| async move { Ok::<_, TaskError>(days * 10) });
/// test.task("load", |_: Context, rows: u32| async move { Ok::<_, TaskError>(format!("{rows} rows")) });
///
/// Flow::new("etl")
///     .step("extract", Target::task("extract"))
///     .step("load", Target::task("load")).after("extract").input("{{ steps.extract.output }}")
///     .output("{{ steps.load.output }}")
///     .save(&test)
///     .await?;
/// let run = test.run_flow("etl", &7).send().await?;
/// test.run_pending().await?;
/// assert_eq!(run.wait::<String>().await?, "70 rows");
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
#[must_use = "a flow is there once it is saved or run"]
pub struct Flow {
    name: String,
    definition: FlowDefinition,
    // What is wrong with it is told at the end, so that its words can stand in one line.
    refused: Option<Invalid>,
}

impl Flow {
    /// A flow without steps.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), definition: FlowDefinition::parallel(Vec::new()), refused: None }
    }

    /// Adds a step, which begins at once unless it is said what it comes [`after`](Self::after).
    pub fn step(mut self, name: impl Into<String>, target: Target) -> Self {
        self.definition.steps.push(Step::new(name, target));
        self
    }

    fn set(mut self, field: &str, change: impl FnOnce(&mut Step)) -> Self {
        if let Some(step) = self.definition.steps.last_mut() {
            change(step);
        } else {
            let nothing = Invalid::new(field, "is said before there is a step").remedy("begin with .step(…)");
            self.refused.get_or_insert(nothing);
        }
        self
    }

    fn document<T: Serialize + ?Sized>(mut self, field: &str, value: &T, put: impl FnOnce(Self, Json) -> Self) -> Self {
        match Json::from_value(field, value) {
            Ok(document) => put(self, document),
            Err(refused) => {
                self.refused.get_or_insert(refused);
                self
            }
        }
    }

    /// The step comes after another one; said more than once, after all of them.
    pub fn after(self, step: impl Into<String>) -> Self {
        self.set("after", |own| own.after.push(step.into()))
    }

    /// What the step is given: any document, with values filled in where a text has `{{ … }}`.
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Self {
        self.document("input", input, |flow, input| flow.set("input", |step| step.input = Some(input)))
    }

    /// The step is skipped unless this is true, such as `steps.extract.output.rows > 0`.
    pub fn when(self, condition: impl Into<String>) -> Self {
        self.set("when", |step| step.when = Some(condition.into()))
    }

    /// The step is run once for each item of a list, such as `steps.extract.output.files`; its input has the item as
    /// `{{ item }}` and its number as `{{ index }}`, and what it returns is the list of what the items returned.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// use punctual::{Context, Flow, Target, TaskError, testing::TestPunctual};
    /// let test = TestPunctual::new().await?;
    /// test.task("double", |_: Context, n: u32| async move { Ok::<_, TaskError>(n * 2) });
    /// let flow = Flow::new("each").step("all", Target::task("double")).map("input", 2).input("{{ item }}")
    ///     .output("{{ steps.all.output }}");
    /// let run = flow.run(&test, &[1, 2, 3]).send().await?;
    /// test.run_pending().await?;
    /// assert_eq!(run.wait::<Vec<u32>>().await?, [2, 4, 6]);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn map(self, over: impl Into<String>, at_once: u32) -> Self {
        self.set("map", |step| step.map = Some(FanOut { over: over.into(), limit: Some(at_once) }))
    }

    /// What a failure of the step means for the others; nothing more is started unless it is said.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.set("on_failure", |step| step.on_failure = on_failure)
    }

    /// How the step is tried again.
    pub fn retry(self, retry: RetryPolicy) -> Self {
        self.set("retry", |step| step.retry = Some(retry))
    }

    /// How long the step may run.
    pub fn timeout(self, timeout: Duration) -> Self {
        let timeout = Timeout::After(signed(timeout));
        self.set("timeout", |step| step.timeout = Some(timeout))
    }

    /// The queue of the step; the flow's own unless it is said.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.set("queue", |step| step.queue = Some(queue.into()))
    }

    /// All steps follow one another in the order in which they were added.
    pub fn sequential(mut self) -> Self {
        self.definition = FlowDefinition::sequential(self.definition.steps);
        self
    }

    /// What the flow returns: any document, with values filled in.
    pub fn output<T: Serialize + ?Sized>(self, output: &T) -> Self {
        self.document("output", output, |mut flow, output| {
            flow.definition.output = Some(output);
            flow
        })
    }

    fn checked(self) -> std::result::Result<(String, FlowDefinition), Invalid> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        self.definition.validate()?;
        Ok((self.name, self.definition))
    }

    /// Stores it under its name: a new one, or the next version. What runs goes on as it began.
    pub async fn save(self, punctual: &Punctual) -> Result<Stored> {
        let (name, definition) = self.checked()?;
        Ok(punctual.store().save_flow(Name::new(name)?, definition, None, None).await?)
    }

    /// Runs it without storing it: a group of jobs that is made once, say.
    pub fn run<I: Serialize + ?Sized>(self, punctual: &Punctual, input: &I) -> Enqueue {
        match self.checked() {
            Ok((name, definition)) => {
                let target = punctual_core::target::Flow { name, definition: Some(Box::new(definition)) };
                punctual.enqueue_target(Target::Flow(target), input)
            }
            Err(error) => Enqueue::refused(punctual.clone(), error),
        }
    }
}

impl Punctual {
    /// Begins a run of a flow that is stored; see [`Flow`](crate::Flow).
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::{Flow, Target};
    /// Flow::new("nightly").step("dump", Target::command(["dump.sh"])).save(&test).await?;
    /// let run = test.run_flow("nightly", &()).queue("night").send().await?;
    /// # drop(run);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn run_flow<I: Serialize + ?Sized>(&self, flow: &str, input: &I) -> Enqueue {
        self.enqueue_target(Target::flow(flow), input)
    }

    /// How far a flow is, step by step; `None` when the job is no flow or has not begun.
    pub async fn flow_run(&self, id: JobId) -> Result<Option<FlowRun>> {
        Ok(self.store().flow_run(id).await?)
    }
}
