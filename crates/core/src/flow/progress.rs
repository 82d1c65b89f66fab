//! What follows from what in a flow: one pure function over the steps' states, so that both stores write the same rows.
//!
//! A store locks the flow, tells what has happened and asks what follows. What the answer depends on and has not been
//! loaded, such as what an earlier step returned, is asked for by name ([`Missing`]); the store loads it and asks again.

use super::filling::{Known, Told};
pub use super::moves::{Event, Facts, FlowEnd, Items, Missing, Moves, Progress, StepEnd, StepJob, StepState};
use super::{FlowDefinition, ITEMS_MAX, OnFailure, Step, filling, is_output_of, step_names};
use crate::job::{Job, NewJob};
use crate::json::{JSON_MAX_BYTES, Json};
use crate::run::{ErrorCode, Outcome, Trigger};
use crate::target::Target;
use crate::trace::TraceContext;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A flow with what can be told from its definition alone.
#[derive(Debug)]
pub struct Shape<'a> {
    definition: &'a FlowDefinition,
    job: &'a Job,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// The steps whose outputs each step asks for.
    asks: Vec<BTreeSet<usize>>,
    /// The same for the flow's own output.
    output_asks: BTreeSet<usize>,
}

impl<'a> Shape<'a> {
    /// The shape of a definition that has been checked, run by a job.
    pub fn of(definition: &'a FlowDefinition, job: &'a Job) -> Self {
        let before = definition.before();
        let mut after = vec![Vec::new(); before.len()];
        for (step, earlier) in before.iter().enumerate() {
            for other in earlier {
                after[*other].push(step);
            }
        }
        let outputs = |names: BTreeSet<String>| -> BTreeSet<usize> {
            let steps = definition.steps.iter().enumerate();
            steps.filter(|(_, step)| names.iter().any(|n| is_output_of(n, &step.name))).map(|(n, _)| n).collect()
        };
        let of_step = |step: &Step| step_names(step).into_iter().flatten().flat_map(|(_, names)| names).collect();
        let asks = definition.steps.iter().map(|step| outputs(of_step(step))).collect();
        let output = definition.output.as_ref().and_then(|output| filling::names_in(output, "output").ok());
        Self { definition, job, before, after, asks, output_asks: outputs(output.unwrap_or_default()) }
    }

    /// The flow's own job.
    pub fn job(&self) -> &'a Job {
        self.job
    }

    /// Whether what a step returns is asked for later, and must be kept.
    pub fn keeps_output(&self, step: usize) -> bool {
        self.output_asks.contains(&step) || self.asks.iter().any(|asked| asked.contains(&step))
    }

    /// The state in which a flow begins.
    pub fn fresh(&self) -> Progress {
        let waits = |earlier: &Vec<usize>| u32::try_from(earlier.len()).unwrap_or(u32::MAX);
        let steps = self.before.iter().map(|earlier| StepState { waits: waits(earlier), ..StepState::default() });
        Progress { steps: steps.collect(), stopping: None }
    }

    /// The state in which it begins again: what came to a good end stays, all else is done anew. Items that completed
    /// stay as well; their number is given for each step.
    pub fn again(&self, earlier: &Progress, completed_items: &BTreeMap<usize, u32>) -> Progress {
        let mut progress = self.fresh();
        for (step, state) in earlier.steps.iter().enumerate() {
            if self.is_passable(step, state) {
                progress.steps[step] = StepState { waits: 0, ..state.clone() };
            } else if let Some(items) = state.items {
                let done = completed_items.get(&step).copied().unwrap_or(0);
                let items = Items { total: items.total, started: done, ended: done, failed: 0 };
                progress.steps[step] = StepState { started: true, items: Some(items), ..StepState::default() };
            }
        }
        for step in 0..progress.steps.len() {
            let open = self.before[step].iter().filter(|other| progress.steps[**other].outcome.is_none()).count();
            if progress.steps[step].outcome.is_none() {
                progress.steps[step].waits = u32::try_from(open).unwrap_or(u32::MAX);
            }
        }
        progress
    }

    /// Whether the steps after a step may begin, as far as it is concerned.
    fn is_passable(&self, step: usize, state: &StepState) -> bool {
        match state.outcome {
            Some(Outcome::Completed) => true,
            Some(Outcome::Skipped) => state.error_code.is_none(),
            Some(Outcome::Failed | Outcome::Cancelled) => {
                self.definition.steps[step].on_failure == OnFailure::Continue && !is_stopped(state)
            }
            None => false,
        }
    }

    /// What follows from events, in their order.
    pub fn advance(&self, before: &Progress, events: &[Event], facts: &Facts) -> Result<(Progress, Moves), Missing> {
        let mut walk = Walk {
            shape: self,
            facts,
            progress: before.clone(),
            moves: Moves::default(),
            ready: VecDeque::new(),
            taken: BTreeMap::new(),
        };
        for event in events {
            walk.happen(event)?;
        }
        walk.settle()?;
        Ok((walk.progress, walk.moves))
    }
}

/// Whether a step came to its end because the whole flow was stopped.
fn is_stopped(state: &StepState) -> bool {
    !state.started && state.outcome == Some(Outcome::Cancelled)
}

/// One look at what follows.
struct Walk<'a> {
    shape: &'a Shape<'a>,
    facts: &'a Facts,
    progress: Progress,
    moves: Moves,
    /// Steps whose predecessors have all ended.
    ready: VecDeque<usize>,
    /// How many of the loaded items of a step have begun.
    taken: BTreeMap<usize, usize>,
}

impl<'a> Walk<'a> {
    fn step(&self, step: usize) -> &'a Step {
        &self.shape.definition.steps[step]
    }

    fn state(&mut self, step: usize) -> &mut StepState {
        self.moves.changed.insert(step);
        &mut self.progress.steps[step]
    }

    fn happen(&mut self, event: &Event) -> Result<(), Missing> {
        match event {
            Event::Begun => {
                let begin = |state: &StepState| state.waits == 0 && !state.started && state.outcome.is_none();
                let steps = self.progress.steps.iter().enumerate();
                self.ready.extend(steps.filter(|(_, state)| begin(state)).map(|(step, _)| step));
            }
            Event::Ended(end) => self.ended(end)?,
            Event::Stop(code) => self.stop(*code)?,
        }
        Ok(())
    }

    /// Begins what can begin, until nothing more can.
    fn settle(&mut self) -> Result<(), Missing> {
        loop {
            while let Some(step) = self.ready.pop_front() {
                self.begin(step)?;
            }
            if !self.begin_items()? && self.ready.is_empty() {
                break;
            }
        }
        if self.progress.steps.iter().all(|state| state.outcome.is_some()) {
            self.moves.end = Some(self.end()?);
        }
        Ok(())
    }

    fn ended(&mut self, end: &StepEnd) -> Result<(), Missing> {
        if self.progress.steps[end.step].outcome.is_some() {
            return Ok(());
        }
        let done = matches!(end.outcome, Outcome::Completed | Outcome::Skipped);
        if end.item.is_some() {
            return self.item_ended(end.step, (!done).then(|| (end.error_code, end.error.clone())));
        }
        if let Some(output) = end.output.clone().filter(|_| done && self.shape.keeps_output(end.step)) {
            self.moves.outputs.insert(end.step, output);
        }
        // What was skipped by its own will is as good as done; only a failure has a code.
        let code = if done { None } else { end.error_code.or(Some(ErrorCode::Internal)) };
        self.close(end.step, end.outcome, code, end.error.clone());
        Ok(())
    }

    fn item_ended(&mut self, step: usize, failure: Option<(Option<ErrorCode>, Option<String>)>) -> Result<(), Missing> {
        let state = self.state(step);
        let items = state.items.get_or_insert_default();
        items.ended += 1;
        if let Some((code, error)) = failure {
            items.failed += 1;
            state.error_code.get_or_insert(code.unwrap_or(ErrorCode::Internal));
            if state.error.is_none() {
                state.error = error;
            }
        }
        self.close_if_items_ended(step)
    }

    fn close_if_items_ended(&mut self, step: usize) -> Result<(), Missing> {
        let state = &self.progress.steps[step];
        let Some(items) = state.items.filter(|_| state.outcome.is_none()) else { return Ok(()) };
        if items.ended < items.started || (items.started < items.total && !self.is_halted(step)) {
            return Ok(());
        }
        let (code, error) = (state.error_code, state.error.clone());
        if items.failed > 0 && self.step(step).on_failure != OnFailure::Continue {
            let first = error.map_or_else(String::new, |error| format!("; the first: {error}"));
            let words = format!("{} of {} items failed{first}", items.failed, items.total);
            self.close(step, Outcome::Failed, code, Some(words));
        } else if items.started < items.total {
            self.close(step, Outcome::Cancelled, self.progress.stopping, None);
        } else {
            match self.items_output(step)? {
                Ok(()) => self.close(step, Outcome::Completed, None, None),
                Err(words) => self.close(step, Outcome::Failed, Some(ErrorCode::OutputTooLarge), Some(words)),
            }
        }
        Ok(())
    }

    /// Puts together what the items returned, if anybody asks for it.
    fn items_output(&mut self, step: usize) -> Result<Result<(), String>, Missing> {
        if !self.shape.keeps_output(step) {
            return Ok(Ok(()));
        }
        let outputs = self.facts.item_outputs.get(&step).ok_or(Missing::ItemOutputs(step))?;
        let bytes: usize = outputs.iter().flatten().map(|output| output.as_str().len() + 1).sum();
        if bytes > JSON_MAX_BYTES {
            return Ok(Err(format!(
                "its items returned {bytes} bytes together, and a later step asks for them; at most {JSON_MAX_BYTES} are \
                 passed on: let them return references to what they made"
            )));
        }
        let list = Json::from_value("output", outputs).map_err(|refused| refused.to_string());
        Ok(list.map(|list| drop(self.moves.outputs.insert(step, list))))
    }

    /// Whether no more items of a step begin.
    fn is_halted(&self, step: usize) -> bool {
        let failed = self.progress.steps[step].items.is_some_and(|items| items.failed > 0);
        self.progress.stopping.is_some() || (failed && self.step(step).on_failure == OnFailure::Stop)
    }

    /// Ends a step, and counts down the steps after it.
    fn close(&mut self, step: usize, outcome: Outcome, code: Option<ErrorCode>, error: Option<String>) {
        let state = self.state(step);
        (state.outcome, state.error_code, state.error) = (Some(outcome), code, error);
        for later in &self.shape.after[step] {
            let state = self.state(*later);
            state.waits = state.waits.saturating_sub(1);
            if state.waits == 0 && state.outcome.is_none() && !state.started {
                self.ready.push_back(*later);
            }
        }
        let failed = matches!(outcome, Outcome::Failed | Outcome::Cancelled);
        if failed && self.step(step).on_failure == OnFailure::Stop && self.progress.stopping.is_none() {
            self.progress.stopping = Some(ErrorCode::DependencyFailed);
            self.drop_unstarted(Outcome::Skipped, ErrorCode::DependencyFailed);
        }
    }

    fn drop_unstarted(&mut self, outcome: Outcome, code: ErrorCode) {
        for step in 0..self.progress.steps.len() {
            let state = &self.progress.steps[step];
            if !state.started && state.outcome.is_none() {
                let state = self.state(step);
                (state.outcome, state.error_code, state.waits) = (Some(outcome), Some(code), 0);
            }
        }
        self.ready.clear();
    }

    fn stop(&mut self, code: ErrorCode) -> Result<(), Missing> {
        self.progress.stopping = Some(code);
        self.moves.cancel = true;
        self.drop_unstarted(Outcome::Cancelled, code);
        (0..self.progress.steps.len()).try_for_each(|step| self.close_if_items_ended(step))
    }

    /// Begins a step all of whose predecessors have ended.
    fn begin(&mut self, step: usize) -> Result<(), Missing> {
        if self.progress.steps[step].outcome.is_some() || self.progress.steps[step].started {
            return Ok(());
        }
        let passable = |other: &usize| self.shape.is_passable(*other, &self.progress.steps[*other]);
        if !self.shape.before[step].iter().all(passable) {
            self.close(step, Outcome::Skipped, Some(ErrorCode::DependencyFailed), None);
            return Ok(());
        }
        let known = self.known(step, None)?;
        let definition = self.step(step);
        let refused = |part: &str, why: String| format!("{part} could not be worked out: {why}");
        let wanted = definition.when.as_ref().map_or(Ok(true), |when| known.holds(when));
        let wanted = wanted.map_err(|why| refused("its condition", why));
        match wanted {
            Ok(false) => self.close(step, Outcome::Skipped, None, None),
            Ok(true) if definition.map.is_some() => {
                let list = definition.map.as_ref().map_or(Ok(Vec::new()), |map| known.list(&map.over));
                let list = list.map_err(|why| refused("its list", why)).and_then(fitting);
                self.begin_list(step, list);
            }
            Ok(true) => match self.input(step, &known) {
                Ok(input) => {
                    let job = StepJob { step, item: None, spec: self.spec(step, None, input) };
                    self.moves.jobs.push(job);
                    self.state(step).started = true;
                }
                Err(why) => self.refuse(step, refused("its input", why)),
            },
            Err(why) => self.refuse(step, why),
        }
        Ok(())
    }

    /// Ends a step that cannot even begin.
    fn refuse(&mut self, step: usize, why: String) {
        self.state(step).started = true;
        self.close(step, Outcome::Failed, Some(ErrorCode::TargetRejected), Some(why));
    }

    fn begin_list(&mut self, step: usize, list: Result<Vec<Json>, String>) {
        match list {
            Err(why) => self.refuse(step, why),
            Ok(values) if values.is_empty() => {
                self.state(step).started = true;
                self.state(step).items = Some(Items::default());
                if self.shape.keeps_output(step) {
                    self.moves.outputs.extend(Json::parse("output", "[]").ok().map(|list| (step, list)));
                }
                self.close(step, Outcome::Completed, None, None);
            }
            Ok(values) => {
                let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
                let state = self.state(step);
                state.started = true;
                state.items = Some(Items { total, ..Items::default() });
                self.moves.items.push((step, values));
            }
        }
    }

    /// Lets as many items begin as have room; says whether anything came of it that must be looked at again.
    fn begin_items(&mut self) -> Result<bool, Missing> {
        let mut again = false;
        for step in 0..self.progress.steps.len() {
            let state = &self.progress.steps[step];
            let (Some(items), Some(map)) = (state.items.filter(|_| state.outcome.is_none()), &self.step(step).map)
            else {
                continue;
            };
            if self.is_halted(step) {
                continue;
            }
            let room = map.at_once().saturating_sub(items.started - items.ended).min(items.total - items.started);
            for (index, value) in self.next_items(step, room)? {
                self.state(step).items.get_or_insert_default().started += 1;
                again |= self.begin_item(step, index, &value)?;
            }
        }
        Ok(again)
    }

    fn begin_item(&mut self, step: usize, index: u32, value: &Json) -> Result<bool, Missing> {
        let known = self.known(step, Some((index, value)))?;
        match self.input(step, &known) {
            Ok(input) => {
                let job = StepJob { step, item: Some(index), spec: self.spec(step, Some(index), input) };
                self.moves.jobs.push(job);
                Ok(false)
            }
            Err(why) => {
                let why = format!("the input of item {index} could not be worked out: {why}");
                self.moves.unfit.push((step, index, why.clone()));
                self.item_ended(step, Some((Some(ErrorCode::TargetRejected), Some(why))))?;
                Ok(true)
            }
        }
    }

    /// The next items of a step that have not begun.
    fn next_items(&mut self, step: usize, count: u32) -> Result<Vec<(u32, Json)>, Missing> {
        let taken = *self.taken.entry(step).or_default();
        let upto = taken + usize::try_from(count).unwrap_or(usize::MAX);
        let next = if let Some((_, new)) = self.moves.items.iter().find(|(of, _)| *of == step) {
            let numbered = (0..).zip(new.iter().cloned());
            numbered.skip(taken).take(upto - taken).collect()
        } else {
            let loaded = self.facts.items.get(&step).map_or(&[][..], Vec::as_slice);
            if loaded.len() < upto {
                return Err(Missing::Items(step, u32::try_from(upto).unwrap_or(u32::MAX)));
            }
            loaded[taken..upto].to_vec()
        };
        self.taken.insert(step, upto);
        Ok(next)
    }

    /// The values that a step may ask for.
    fn known<'b>(&'b self, step: usize, item: Option<(u32, &'b Json)>) -> Result<Known<'b>, Missing> {
        Ok(Known { item, ..self.known_to(&self.shape.asks[step])? })
    }

    fn known_to<'b>(&'b self, asked: &BTreeSet<usize>) -> Result<Known<'b>, Missing> {
        let mut steps = BTreeMap::new();
        for (step, state) in self.progress.steps.iter().enumerate() {
            let Some(outcome) = state.outcome else { continue };
            let asked = outcome == Outcome::Completed && asked.contains(&step);
            let output = if asked { self.output_of(step)? } else { None };
            steps.insert(self.step(step).name.as_str(), Told { outcome: outcome.as_str(), output });
        }
        Ok(Known { input: Some(&self.shape.job.spec.input), steps, item: None })
    }

    fn output_of(&self, step: usize) -> Result<Option<&Json>, Missing> {
        match self.moves.outputs.get(&step) {
            Some(output) => Ok(Some(output)),
            // What ended just now without an output has none in the store either.
            None => self.facts.outputs.get(&step).map(Option::as_ref).ok_or(Missing::Output(step)),
        }
    }

    fn input(&self, step: usize, known: &Known<'_>) -> Result<Json, String> {
        self.step(step).input.as_ref().map_or_else(|| Ok(self.shape.job.spec.input.clone()), |input| known.fill(input))
    }

    fn spec(&self, step: usize, item: Option<u32>, input: Json) -> NewJob {
        let (flow, step) = (&self.shape.job.spec, self.step(step));
        let name = match &flow.target {
            Target::Flow(flow) => flow.name.as_str(),
            _ => "flow",
        };
        let item = item.map_or_else(String::new, |item| format!("[{item}]"));
        NewJob {
            input,
            queue: step.queue.clone().unwrap_or_else(|| flow.queue.clone()),
            priority: step.priority.unwrap_or(flow.priority),
            tags: step.tags.clone(),
            retry: step.retry.clone().unwrap_or_else(|| step.target.usual_retry()),
            timeout: step.timeout.unwrap_or_else(|| step.target.usual_timeout()),
            grant_id: step.grant_id.or(flow.grant_id),
            trigger: Trigger::Flow,
            trigger_detail: Some(format!("{name}/{}{item}", step.name)),
            trace_context: Some(TraceContext::of_run(self.shape.job).to_string()),
            owner: flow.owner.clone(),
            ..NewJob::new(step.target.clone())
        }
    }

    /// How the flow ended, derived from how its steps did.
    fn end(&self) -> Result<FlowEnd, Missing> {
        let stopped = self.progress.stopping.filter(|code| *code != ErrorCode::DependencyFailed);
        let undone = self.progress.steps.iter().any(|state| state.outcome == Some(Outcome::Cancelled));
        if let Some(code) = stopped.filter(|_| undone) {
            let timeout = code == ErrorCode::Timeout;
            let outcome = if timeout { Outcome::Failed } else { Outcome::Cancelled };
            let words = if timeout { "it took longer than its timeout" } else { "it was cancelled while it ran" };
            return Ok(FlowEnd { outcome, error_code: Some(code), error: Some(words.to_owned()), output: None });
        }
        let counts = |step: &usize| {
            let failed = matches!(self.progress.steps[*step].outcome, Some(Outcome::Failed | Outcome::Cancelled));
            failed && self.step(*step).on_failure != OnFailure::Continue
        };
        let failed: Vec<usize> = (0..self.progress.steps.len()).filter(counts).collect();
        if let Some(first) = failed.first() {
            let state = &self.progress.steps[*first];
            let why = state.error.as_deref().map_or_else(String::new, |error| format!(": {error}"));
            let more = if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
            let error = Some(format!("the step `{}` failed{more}{why}", self.step(*first).name));
            let error_code = state.error_code.or(Some(ErrorCode::Internal));
            return Ok(FlowEnd { outcome: Outcome::Failed, error_code, error, output: None });
        }
        let known = self.known_to(&self.shape.output_asks)?;
        let output = self.shape.definition.output.as_ref().map(|output| known.fill(output)).transpose();
        Ok(match output {
            Ok(output) => FlowEnd { outcome: Outcome::Completed, error_code: None, error: None, output },
            Err(why) => FlowEnd {
                outcome: Outcome::Failed,
                error_code: Some(ErrorCode::BadOutput),
                error: Some(format!("its output could not be worked out: {why}")),
                output: None,
            },
        })
    }
}

/// Refuses a list that is too long to be stored.
fn fitting(list: Vec<Json>) -> Result<Vec<Json>, String> {
    if list.len() > ITEMS_MAX {
        return Err(format!("its list has {} items; at most {ITEMS_MAX} are allowed", list.len()));
    }
    Ok(list)
}
