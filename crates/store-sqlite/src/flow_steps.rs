//! The walk of a flow: what follows from the end of a step is written in the transaction that ends it.

use crate::flows::{read_steps, read_stops, step_number};
use crate::rows::{Columns, document};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::closing::{End, storable_text};
use punctual_core::flow::progress::{Event, Facts, Missing, Moves, Progress, Shape, StepEnd, StepJob, StepState};
use punctual_core::flow::{DEPTH_MAX, FlowDefinition, FlowsAdvanced};
use punctual_core::id::JobId;
use punctual_core::job::{Job, Origin};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{FinishResult, FinishedRun, Lease, StoreError, StoreResult};
use punctual_core::target::Target;
use rusqlite::params;
use std::collections::BTreeMap;

/// How a flow begins: by which definition, in the place of which earlier attempt, and how deep it is nested.
struct Beginning {
    definition: FlowDefinition,
    earlier: Option<JobId>,
    depth: u32,
}

/// A flow as it is loaded to go on.
struct Loaded {
    job: Job,
    definition: FlowDefinition,
    progress: Progress,
}

/// The end of a job that its flow is to be told of.
#[derive(Debug)]
pub(crate) struct Told {
    job: JobId,
    flow_id: JobId,
    end: StepEnd,
}

impl Tx<'_> {
    /// Lets a flow that a node has claimed go on without it, and makes the jobs of its first steps.
    pub(crate) fn begin_flow(&mut self, lease: Lease, id: JobId) -> StoreResult<FinishResult> {
        let Some(job) = self.job(id)? else { return Ok(FinishResult::LostLease) };
        let Beginning { definition, earlier, depth } = match self.flow_to_begin(&job)? {
            Ok(found) => found,
            Err(why) => return self.finish(lease, &FinishedRun::failed(id, ErrorCode::TargetRejected, why)),
        };
        let hand_over = "UPDATE punctual_running SET node_id = NULL, lease_id = NULL
                         WHERE job_id = ?1 AND node_id = ?2 AND lease_id = ?3 RETURNING started_at";
        let params = params![id.as_bytes(), lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
        let Some(started_at) = self.one(hand_over, params, |row| Columns::of(row).time())? else {
            let begun = "SELECT 1 FROM punctual_flow_runs WHERE job_id = ?1";
            let begun = self.one(begun, params![id.as_bytes()], value::<i64>)?;
            return Ok(begun.map_or(FinishResult::LostLease, |_| FinishResult::GoesOn));
        };
        let deadline = job.spec.timeout.deadline(started_at);
        self.execute(
            "INSERT INTO punctual_flow_runs (job_id, definition, depth, started_at, deadline)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                id.as_bytes(),
                document("definition", &definition)?,
                depth,
                started_at.as_microsecond(),
                deadline.map(Timestamp::as_microsecond)
            ],
        )?;
        let shape = Shape::of(&definition, &job);
        let progress = self.first_progress(&shape, id, earlier)?;
        for (step, state) in progress.steps.iter().enumerate() {
            let name = &definition.steps[step].name;
            let insert = "INSERT INTO punctual_flow_steps (flow_id, step, name, waits) VALUES (?1, ?2, ?3, 0)";
            self.execute(insert, params![id.as_bytes(), step_number(step), name])?;
            self.write_step(id, step, state, None)?;
        }
        if let Some(earlier) = earlier {
            self.execute(sql::keep_step_outputs, params![id.as_bytes(), earlier.as_bytes()])?;
        }
        self.walk(&shape, &progress, &[Event::Begun])?;
        self.tell_flows()?;
        Ok(FinishResult::GoesOn)
    }

    /// How a flow is to begin, or why it cannot.
    fn flow_to_begin(&self, job: &Job) -> StoreResult<Result<Beginning, String>> {
        let Target::Flow(flow) = &job.spec.target else { return Ok(Err("it is no flow".to_owned())) };
        let parent = "SELECT r.depth FROM punctual_flow_jobs AS j JOIN punctual_flow_runs AS r ON r.job_id = j.flow_id
                      WHERE j.job_id = ?1";
        let depth = self.one(parent, params![job.id.as_bytes()], value::<u32>)?.unwrap_or(0) + 1;
        if depth > DEPTH_MAX {
            return Ok(Err(format!("flows are nested more than {DEPTH_MAX} deep; does one run itself?")));
        }
        let earlier = self.one(sql::earlier_flow, params![job.id.as_bytes()], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.document("definition")?))
        })?;
        if let Some((id, definition)) = earlier {
            return Ok(Ok(Beginning { definition, earlier: Some(id), depth }));
        }
        let definition = match &flow.definition {
            Some(definition) => Some(definition.as_ref().clone()),
            None => self.stored_flow(&flow.name)?.map(|flow| flow.definition),
        };
        let missing = || format!("there is no flow `{}`; store it, and retry this job", flow.name);
        Ok(definition.map(|definition| Beginning { definition, earlier: None, depth }).ok_or_else(missing))
    }

    /// Where a flow begins: at its start, or where an earlier attempt of it ended.
    fn first_progress(&mut self, shape: &Shape<'_>, id: JobId, earlier: Option<JobId>) -> StoreResult<Progress> {
        let Some(earlier) = earlier else { return Ok(shape.fresh()) };
        self.execute(sql::keep_items, params![id.as_bytes(), earlier.as_bytes()])?;
        let count =
            "SELECT step, count(*) FROM punctual_flow_items WHERE flow_id = ?1 AND outcome IS NOT NULL GROUP BY step";
        let completed: BTreeMap<usize, u32> = self
            .all(count, params![id.as_bytes()], |row| {
                let mut c = Columns::of(row);
                Ok((usize::try_from(c.count()?).unwrap_or(usize::MAX), c.next()?))
            })?
            .into_iter()
            .collect();
        let steps = read_steps(self.connection(), earlier, false)?;
        let before = Progress { steps: steps.into_iter().map(|step| step.state).collect(), stopping: None };
        Ok(shape.again(&before, &completed))
    }

    /// Notes that a job has ended for good, if a flow is to be told of it.
    pub(crate) fn note_step(&mut self, job: JobId, end: &End, output: Option<&Json>) -> StoreResult<()> {
        let find = "SELECT flow_id, step, item FROM punctual_flow_jobs WHERE job_id = ?1";
        let link = self.one(find, params![job.as_bytes()], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, usize::try_from(c.count()?).unwrap_or(usize::MAX), c.next()?))
        })?;
        let Some((flow_id, step, item)) = link else { return Ok(()) };
        let end = StepEnd {
            step,
            item,
            outcome: end.outcome,
            error_code: end.error_code,
            error: end.error.as_deref().map(storable_text),
            output: output.cloned(),
        };
        self.told.push(Told { job, flow_id, end });
        Ok(())
    }

    /// Tells flows of the ends that were noted, each of all of them at once; what ends by it is told in its turn.
    pub(crate) fn tell_flows(&mut self) -> StoreResult<()> {
        while !self.told.is_empty() {
            let mut by_flow: BTreeMap<JobId, Vec<Told>> = BTreeMap::new();
            for told in std::mem::take(&mut self.told) {
                by_flow.entry(told.flow_id).or_default().push(told);
            }
            for (flow, told) in by_flow {
                let Some(loaded) = self.load_flow(flow)? else { continue };
                let shape = Shape::of(&loaded.definition, &loaded.job);
                let events = self.events_of(&shape, &loaded.progress, told)?;
                if !events.is_empty() {
                    self.walk(&shape, &loaded.progress, &events)?;
                }
            }
        }
        Ok(())
    }

    /// The same for a job that was cancelled before it began.
    pub(crate) fn tell_flow_of_cancelled(&mut self, job: JobId) -> StoreResult<()> {
        let end = End {
            outcome: Outcome::Cancelled,
            error_code: Some(ErrorCode::Cancelled),
            error: Some("it was cancelled before it began".to_owned()),
            retry: None,
        };
        self.note_step(job, &end, None)?;
        self.tell_flows()
    }

    /// What a flow is told: the ends of those jobs that their steps wait for. Ends of items are written down here.
    fn events_of(&mut self, shape: &Shape<'_>, progress: &Progress, told: Vec<Told>) -> StoreResult<Vec<Event>> {
        let mut events = Vec::new();
        for Told { job, flow_id, end } in told {
            let waited_for = match end.item {
                None => progress.steps.get(end.step).is_some_and(|state| state.job_id == Some(job)),
                Some(item) => {
                    let output = end.output.as_ref().filter(|_| shape.keeps_output(end.step)).map(Json::as_str);
                    let (step, outcome) = (step_number(end.step), end.outcome.as_str());
                    let params = params![flow_id.as_bytes(), step, item, job.as_bytes(), outcome, end.error, output];
                    self.execute(sql::close_flow_item, params)? > 0
                }
            };
            if waited_for {
                events.push(Event::Ended(end));
            }
        }
        Ok(events)
    }

    /// The job that takes another's place is the one that its step waits for.
    pub(crate) fn pass_step_on(&mut self, old: JobId, new: JobId) -> StoreResult<()> {
        let link = "INSERT INTO punctual_flow_jobs (job_id, flow_id, step, item)
                    SELECT ?2, flow_id, step, item FROM punctual_flow_jobs WHERE job_id = ?1";
        if self.execute(link, params![old.as_bytes(), new.as_bytes()])? == 0 {
            return Ok(());
        }
        self.execute(sql::pass_flow_step, params![old.as_bytes(), new.as_bytes()])?;
        self.execute(sql::pass_flow_item, params![old.as_bytes(), new.as_bytes()])?;
        Ok(())
    }

    /// Refuses to retry a step by itself: its flow would not hear of it.
    pub(crate) fn refuse_step(&self, id: JobId, outcome: Outcome) -> StoreResult<()> {
        let find = "SELECT 1 FROM punctual_flow_jobs WHERE job_id = ?1";
        match self.one(find, params![id.as_bytes()], value::<i64>)? {
            Some(_) => Err(punctual_core::flow::step_not_retried(outcome)),
            None => Ok(()),
        }
    }

    pub(crate) fn advance_flows(&mut self, limit: usize) -> StoreResult<FlowsAdvanced> {
        let mut advanced = FlowsAdvanced::default();
        for (id, code) in read_stops(self.connection(), self.now, limit)? {
            let stopped = usize::from(self.stop_flow(id, code)?);
            match code {
                ErrorCode::Timeout => advanced.expired += stopped,
                _ => advanced.stopped += stopped,
            }
        }
        Ok(advanced)
    }

    /// Stops a flow; false when there is none, or it has ended or stops already.
    pub(crate) fn stop_flow(&mut self, id: JobId, code: ErrorCode) -> StoreResult<bool> {
        let Some(loaded) = self.load_flow(id)? else { return Ok(false) };
        if loaded.progress.stopping.is_some_and(|before| before != ErrorCode::DependencyFailed) {
            return Ok(false);
        }
        self.walk(&Shape::of(&loaded.definition, &loaded.job), &loaded.progress, &[Event::Stop(code)])?;
        self.tell_flows()?;
        Ok(true)
    }

    /// A flow that has begun and not ended.
    fn load_flow(&self, id: JobId) -> StoreResult<Option<Loaded>> {
        let find = "SELECT definition, stopping FROM punctual_flow_runs WHERE job_id = ?1 AND ended_at IS NULL";
        let found = self.one(find, params![id.as_bytes()], |row| {
            let mut c = Columns::of(row);
            Ok((c.document("definition")?, c.optional_word()?))
        })?;
        let Some((definition, stopping)) = found else { return Ok(None) };
        let gone = || StoreError::Internal(format!("the job {id} of a flow is gone"));
        let job = self.job(id)?.ok_or_else(gone)?;
        let steps = read_steps(self.connection(), id, false)?.into_iter().map(|step| step.state).collect();
        Ok(Some(Loaded { job, definition, progress: Progress { steps, stopping } }))
    }

    /// Asks what follows from events, and writes it.
    fn walk(&mut self, shape: &Shape<'_>, before: &Progress, events: &[Event]) -> StoreResult<()> {
        let job = shape.job();
        let mut facts = Facts::default();
        let (progress, moves) = loop {
            match shape.advance(before, events, &facts) {
                Ok(answer) => break answer,
                Err(missing) => self.load_fact(job.id, missing, &mut facts)?,
            }
        };
        self.write_moves(job, &progress, &moves)?;
        if progress.stopping != before.stopping {
            let stop = "UPDATE punctual_flow_runs SET stopping = ?2 WHERE job_id = ?1";
            self.execute(stop, params![job.id.as_bytes(), progress.stopping.map(ErrorCode::as_str)])?;
        }
        if moves.cancel {
            self.cancel_steps(job.id)?;
        }
        match moves.end {
            Some(end) => {
                let ended = "UPDATE punctual_flow_runs SET ended_at = ?2 WHERE job_id = ?1";
                self.execute(ended, params![job.id.as_bytes(), self.now_us()])?;
                self.finish_flow(&end.into_report(job.id))
            }
            None => Ok(()),
        }
    }

    fn load_fact(&self, id: JobId, missing: Missing, facts: &mut Facts) -> StoreResult<()> {
        match missing {
            Missing::Output(step) => {
                let find = "SELECT output FROM punctual_flow_steps WHERE flow_id = ?1 AND step = ?2";
                let params = params![id.as_bytes(), step_number(step)];
                facts.outputs.insert(step, self.one(find, params, |row| Columns::of(row).optional_json())?.flatten());
            }
            Missing::Items(step, count) => {
                let params = params![id.as_bytes(), step_number(step), count];
                let items: Vec<(u32, Json)> = self.all(sql::open_flow_items, params, |row| {
                    let mut c = Columns::of(row);
                    Ok((c.next()?, c.json()?))
                })?;
                if items.len() < usize::try_from(count).unwrap_or(usize::MAX) {
                    return Err(StoreError::Internal(format!("items of the flow {id} are gone")));
                }
                facts.items.insert(step, items);
            }
            Missing::ItemOutputs(step) => {
                let find = "SELECT output FROM punctual_flow_items WHERE flow_id = ?1 AND step = ?2 ORDER BY item";
                let params = params![id.as_bytes(), step_number(step)];
                facts.item_outputs.insert(step, self.all(find, params, |row| Columns::of(row).optional_json())?);
            }
        }
        Ok(())
    }

    fn write_moves(&mut self, job: &Job, progress: &Progress, moves: &Moves) -> StoreResult<()> {
        for step in &moves.changed {
            self.write_step(job.id, *step, &progress.steps[*step], moves.outputs.get(step))?;
        }
        let insert = "INSERT INTO punctual_flow_items (flow_id, step, item, value) VALUES (?1, ?2, ?3, ?4)";
        for (step, values) in &moves.items {
            for (item, value) in values.iter().enumerate() {
                self.execute(
                    insert,
                    params![job.id.as_bytes(), step_number(*step), step_number(item), value.as_str()],
                )?;
            }
        }
        let unfit = "UPDATE punctual_flow_items SET outcome = 'failed', error = ?4
                     WHERE flow_id = ?1 AND step = ?2 AND item = ?3";
        for (step, item, why) in &moves.unfit {
            self.execute(unfit, params![job.id.as_bytes(), step_number(*step), item, storable_text(why)])?;
        }
        self.reserve_positions(moves.jobs.len())?;
        moves.jobs.iter().try_for_each(|step| self.make_step(job.id, step))
    }

    fn write_step(&mut self, id: JobId, step: usize, state: &StepState, output: Option<&Json>) -> StoreResult<()> {
        let items = state.items;
        self.execute(
            sql::write_flow_step,
            params![
                id.as_bytes(),
                step_number(step),
                state.waits,
                state.job_id.as_ref().map(JobId::as_bytes),
                state.started.then(|| self.now_us()),
                state.outcome.map(|_| self.now_us()),
                state.outcome.map(Outcome::as_str),
                state.error_code.map(ErrorCode::as_str),
                state.error.as_deref().map(storable_text),
                output.map(Json::as_str),
                items.map(|items| items.total),
                items.map_or(0, |items| items.started),
                items.map_or(0, |items| items.ended),
                items.map_or(0, |items| items.failed),
            ],
        )?;
        Ok(())
    }

    fn make_step(&mut self, flow: JobId, step: &StepJob) -> StoreResult<()> {
        let id = self.insert_and_place(&step.spec, &Origin::default())?;
        let link = "INSERT INTO punctual_flow_jobs (job_id, flow_id, step, item) VALUES (?1, ?2, ?3, ?4)";
        self.execute(link, params![id.as_bytes(), flow.as_bytes(), step_number(step.step), step.item])?;
        let (note, at) = match step.item {
            Some(_) => {
                ("UPDATE punctual_flow_items SET job_id = ?1 WHERE flow_id = ?2 AND step = ?3 AND item = ?4", step.item)
            }
            None => {
                ("UPDATE punctual_flow_steps SET job_id = ?1 WHERE flow_id = ?2 AND step = ?3 AND ?4 IS NULL", None)
            }
        };
        self.execute(note, params![id.as_bytes(), flow.as_bytes(), step_number(step.step), at])?;
        Ok(())
    }

    /// Cancels what is alive of a flow: what has not begun ends here, what runs is asked to stop.
    fn cancel_steps(&mut self, id: JobId) -> StoreResult<()> {
        let alive: Vec<JobId> = self.all(sql::live_flow_jobs, params![id.as_bytes()], |row| Columns::of(row).id())?;
        for job in alive {
            match self.cancel_job(job) {
                Ok(_) | Err(StoreError::WrongState { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
