//! The walk of a flow: what follows from the end of a step is written in the transaction that ends it.
//!
//! Differs from SQLite, which tells a flow of one end at a time: the ends of a batch are told together, each flow's own
//! row is locked first, in order, and what follows is written in as few round trips as can be.

use crate::error::{Failure, Work};
use crate::finish::{TakenRun, taken_run};
use crate::flows::{flow_step, small, step_number};
use crate::making::Making;
use crate::params::{params, time};
use crate::rows::{self, Columns, document, value};
use crate::session::Step;
use crate::sql;
use crate::tx::Tx;
use punctual_core::closing::storable_text;
use punctual_core::flow::progress::{Event, Facts, Missing, Moves, Progress, Shape, StepEnd, StepJob, StepState};
use punctual_core::flow::{DEPTH_MAX, FlowDefinition};
use punctual_core::id::JobId;
use punctual_core::job::{Job, Origin};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{FinishedRun, Lease, StoreError};
use punctual_core::target::Target;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// The step that a job was made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) flow_id: JobId,
    step: usize,
    item: Option<u32>,
}

impl Link {
    /// Reads it from three columns, which are empty for most jobs.
    pub(crate) fn read(c: &mut Columns<'_>) -> Result<Option<Self>, rows::Unreadable> {
        let flow_id: Option<JobId> = c.optional_id()?;
        let (step, item) = (small(c)?, small(c)?);
        let step = step.and_then(|step| usize::try_from(step).ok());
        Ok(flow_id.zip(step).map(|(flow_id, step)| Self { flow_id, step, item }))
    }
}

/// The end of a job that its flow is to be told of.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) job: JobId,
    pub(crate) link: Link,
    pub(crate) outcome: Outcome,
    pub(crate) error_code: Option<ErrorCode>,
    pub(crate) error: Option<String>,
    pub(crate) output: Option<Json>,
}

impl Told {
    fn end(&self) -> StepEnd {
        StepEnd {
            step: self.link.step,
            item: self.link.item,
            outcome: self.outcome,
            error_code: self.error_code,
            error: self.error.as_deref().map(storable_text),
            output: self.output.clone(),
        }
    }
}

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

/// What became of a flow that a node wants to hand over.
pub(crate) enum Begun {
    GoesOn,
    LostLease,
    /// It cannot begin, and why.
    Refused(String),
}

impl Tx<'_> {
    /// Lets a flow that a node has claimed go on without it, and makes the jobs of its first steps.
    pub(crate) async fn begin_flow(&mut self, lease: Lease, id: JobId) -> Work<Begun> {
        let Some(job) = self.job(id).await? else { return Ok(Begun::LostLease) };
        let Beginning { definition, earlier, depth } = match self.flow_to_begin(&job).await? {
            Ok(found) => found,
            Err(why) => return Ok(Begun::Refused(why)),
        };
        // On no node it takes no room within limits, which its steps need.
        let hand_over = "UPDATE punctual_internal.running SET node_id = NULL, lease_id = NULL, limited = false
                         WHERE job_id = $1 AND node_id = $2 AND (lease_id = $3) IS TRUE RETURNING started_at";
        let params = params![id.0, lease.node_id.0, lease.lease_id.0];
        let Some(started_at) = self.one(hand_over, params, |row| Columns::of(row).time()).await? else {
            let begun = "SELECT 1 FROM punctual_internal.flow_runs WHERE job_id = $1";
            let begun = self.one(begun, params![id.0], value::<i32>).await?;
            return Ok(begun.map_or(Begun::LostLease, |_| Begun::GoesOn));
        };
        let deadline = job.spec.timeout.deadline(started_at);
        let insert = "INSERT INTO punctual_internal.flow_runs (job_id, definition, depth, started_at, deadline)
                      VALUES ($1, $2::text::json, $3, $4, $5)";
        let depth = i32::try_from(depth).unwrap_or(i32::MAX);
        let params = params![id.0, document("definition", &definition)?, depth, time(started_at), deadline.map(time)];
        self.execute(insert, params).await?;
        let shape = Shape::of(&definition, &job);
        let progress = self.first_progress(&shape, id, earlier).await?;
        let names: Vec<&str> = definition.steps.iter().map(|step| step.name.as_str()).collect();
        let insert = "INSERT INTO punctual_internal.flow_steps (flow_id, step, name, waits)
                      SELECT $1, n - 1, name, 0 FROM unnest($2::text[]) WITH ORDINALITY AS w (name, n)";
        self.execute(insert, params![id.0, names]).await?;
        let steps: Vec<Step<'_>> =
            progress.steps.iter().enumerate().map(|(step, state)| self.step_row(id, step, state, None)).collect();
        self.pipeline(&steps).await?;
        if let Some(earlier) = earlier {
            self.execute(sql::keep_step_outputs, params![id.0, earlier.0]).await?;
        }
        let ended = self.walk(&shape, &progress, &[Event::Begun]).await?;
        self.close_flows(ended.into_iter().collect()).await?;
        Ok(Begun::GoesOn)
    }

    /// How a flow is to begin, or why it cannot.
    async fn flow_to_begin(&self, job: &Job) -> Work<Result<Beginning, String>> {
        let Target::Flow(flow) = &job.spec.target else { return Ok(Err("it is no flow".to_owned())) };
        let parent = "SELECT r.depth FROM punctual_internal.flow_jobs AS j
                      JOIN punctual_internal.flow_runs AS r ON r.job_id = j.flow_id WHERE j.job_id = $1";
        let above = self.one(parent, params![job.id.0], value::<i32>).await?.unwrap_or(0);
        let depth = u32::try_from(above).unwrap_or(0) + 1;
        if depth > DEPTH_MAX {
            return Ok(Err(format!("flows are nested more than {DEPTH_MAX} deep; does one run itself?")));
        }
        let earlier = self.one(sql::earlier_flow, params![job.id.0], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.document("definition")?))
        });
        if let Some((id, definition)) = earlier.await? {
            return Ok(Ok(Beginning { definition, earlier: Some(id), depth }));
        }
        let definition = match &flow.definition {
            Some(definition) => Some(definition.as_ref().clone()),
            None => self.stored_flow(&flow.name).await?,
        };
        let missing = || format!("there is no flow `{}`; store it, and retry this job", flow.name);
        Ok(definition.map(|definition| Beginning { definition, earlier: None, depth }).ok_or_else(missing))
    }

    /// Where a flow begins: at its start, or where an earlier attempt of it ended.
    async fn first_progress(&self, shape: &Shape<'_>, id: JobId, earlier: Option<JobId>) -> Work<Progress> {
        let Some(earlier) = earlier else { return Ok(shape.fresh()) };
        self.execute(sql::keep_items, params![id.0, earlier.0]).await?;
        let count = "SELECT step, count(*)::integer FROM punctual_internal.flow_items
                     WHERE flow_id = $1 AND outcome IS NOT NULL GROUP BY step";
        let completed = self.all(count, params![id.0], |row| {
            let mut c = Columns::of(row);
            Ok((usize::try_from(c.small::<u32>()?).unwrap_or(usize::MAX), c.small()?))
        });
        let completed: BTreeMap<usize, u32> = completed.await?.into_iter().collect();
        let steps = self.all(sql::flow_steps, params![earlier.0, false], flow_step).await?;
        let before = Progress { steps: steps.into_iter().map(|step| step.state).collect(), stopping: None };
        Ok(shape.again(&before, &completed))
    }

    /// Tells flows of the ends of their jobs, and whatever follows from that: a flow that ends by it may be a step itself.
    pub(crate) async fn tell_flows(&self, mut told: Vec<Told>) -> Work<()> {
        while !told.is_empty() {
            let mut ended = Vec::new();
            for (loaded, ends) in self.flows_of(&told).await? {
                let shape = Shape::of(&loaded.definition, &loaded.job);
                let events = self.events_of(&shape, &loaded.progress, &ends).await?;
                if !events.is_empty() {
                    ended.extend(self.walk(&shape, &loaded.progress, &events).await?);
                }
            }
            told = self.close_flow_jobs(ended).await?;
        }
        Ok(())
    }

    /// The same, beginning with flows that have ended.
    async fn close_flows(&self, ended: Vec<FinishedRun>) -> Work<()> {
        let told = self.close_flow_jobs(ended).await?;
        self.tell_flows(told).await
    }

    /// Closes the jobs of flows that have ended; answers with what their own flows are to be told.
    async fn close_flow_jobs(&self, ended: Vec<FinishedRun>) -> Work<Vec<Told>> {
        if ended.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = ended.iter().map(|run| run.job_id.0).collect();
        let steps = [
            Step::Rows(sql::lock_serial_keys_of_running, params![ids.clone()]),
            Step::Rows(sql::take_running_flows, params![ids]),
        ];
        let taken = self.pipeline(&steps).await?.pop().map(crate::session::Answer::rows).unwrap_or_default();
        let taken: HashMap<JobId, TakenRun> = rows::collect(&taken, taken_run)?.into_iter().collect();
        let mut ends = self.judge_ends(None, &ended, taken, false).await?;
        self.pipeline(&ends.steps(self.at())).await?;
        Ok(std::mem::take(&mut ends.told))
    }

    /// The flows that are to be told, each locked and loaded, with the ends of its jobs.
    async fn flows_of<'t>(&self, told: &'t [Told]) -> Work<Vec<(Loaded, Vec<&'t Told>)>> {
        let mut by_flow: BTreeMap<JobId, Vec<&Told>> = BTreeMap::new();
        for end in told {
            by_flow.entry(end.link.flow_id).or_default().push(end);
        }
        let ids: Vec<Uuid> = by_flow.keys().map(|id| id.0).collect();
        // In order, so that two batches do not wait for each other.
        let lock = "SELECT job_id FROM punctual_internal.flow_runs WHERE job_id = ANY ($1) ORDER BY job_id FOR UPDATE";
        self.rows(lock, params![ids]).await?;
        let mut flows = Vec::new();
        for (id, ends) in by_flow {
            flows.extend(self.load_flow(id).await?.map(|loaded| (loaded, ends)));
        }
        Ok(flows)
    }

    /// What a flow is told: the ends of those jobs that their steps wait for. Ends of items are written down here.
    async fn events_of(&self, shape: &Shape<'_>, progress: &Progress, ends: &[&Told]) -> Work<Vec<Event>> {
        let (items, steps): (Vec<&Told>, Vec<&Told>) = ends.iter().partition(|end| end.link.item.is_some());
        let current =
            |end: &&Told| progress.steps.get(end.link.step).is_some_and(|state| state.job_id == Some(end.job));
        let mut events: Vec<Event> = steps.into_iter().filter(current).map(|end| Event::Ended(end.end())).collect();
        if !items.is_empty() {
            let output = |end: &&Told| {
                end.output
                    .as_ref()
                    .filter(|_| shape.keeps_output(end.link.step))
                    .map(|output| output.as_str().to_owned())
            };
            let params = params![
                shape.job().id.0,
                items.iter().map(|end| end.job.0).collect::<Vec<_>>(),
                items.iter().map(|end| step_number(end.link.step)).collect::<Vec<_>>(),
                items.iter().map(|end| item_number(end.link.item)).collect::<Vec<_>>(),
                items.iter().map(|end| end.outcome.as_str()).collect::<Vec<_>>(),
                items.iter().map(|end| end.error.as_deref().map(storable_text)).collect::<Vec<_>>(),
                items.iter().map(output).collect::<Vec<_>>(),
            ];
            let closed: Vec<JobId> = self.all(sql::close_flow_items, params, |row| Columns::of(row).id()).await?;
            events.extend(items.iter().filter(|end| closed.contains(&end.job)).map(|end| Event::Ended(end.end())));
        }
        Ok(events)
    }

    /// The jobs that take others' places are the ones that their steps wait for.
    pub(crate) async fn pass_steps_on(&self, passed: &[(JobId, JobId)]) -> Work<()> {
        if passed.is_empty() {
            return Ok(());
        }
        let (old, new): (Vec<Uuid>, Vec<Uuid>) = passed.iter().map(|(old, new)| (old.0, new.0)).unzip();
        self.execute(sql::pass_flow_jobs, params![old, new]).await?;
        Ok(())
    }

    /// The flows that jobs are steps of.
    pub(crate) async fn links_of(&self, jobs: &[JobId]) -> Work<HashMap<JobId, Link>> {
        let find = "SELECT job_id, flow_id, step, item FROM punctual_internal.flow_jobs WHERE job_id = ANY ($1)";
        let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
        let found = self.all(find, params![ids], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, Link::read(&mut c)?))
        });
        Ok(found.await?.into_iter().filter_map(|(id, link)| Some((id, link?))).collect())
    }

    /// Tells flows of jobs that were cancelled before they began.
    pub(crate) async fn tell_flows_of_cancelled(&self, jobs: &[JobId]) -> Work<()> {
        let links = self.links_of(jobs).await?;
        let told = jobs.iter().filter_map(|job| links.get(job).map(|link| (*job, *link))).map(|(job, link)| Told {
            job,
            link,
            outcome: Outcome::Cancelled,
            error_code: Some(ErrorCode::Cancelled),
            error: Some("it was cancelled before it began".to_owned()),
            output: None,
        });
        self.tell_flows(told.collect()).await
    }

    /// Stops a flow; false when it has ended or stops already.
    pub(crate) async fn stop_flow(&self, id: JobId, code: ErrorCode) -> Work<bool> {
        let lock = "SELECT 1 FROM punctual_internal.flow_runs WHERE job_id = $1 FOR UPDATE";
        self.rows(lock, params![id.0]).await?;
        let Some(loaded) = self.load_flow(id).await? else { return Ok(false) };
        if loaded.progress.stopping.is_some_and(|before| before != ErrorCode::DependencyFailed) {
            return Ok(false);
        }
        let ended =
            self.walk(&Shape::of(&loaded.definition, &loaded.job), &loaded.progress, &[Event::Stop(code)]).await?;
        let alive: Vec<JobId> = self.all(sql::live_flow_jobs, params![id.0], |row| Columns::of(row).id()).await?;
        for job in alive {
            match self.cancel_job(job).await {
                Ok(_) | Err(Failure::Told(StoreError::WrongState { .. })) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.close_flows(ended.into_iter().collect()).await?;
        Ok(true)
    }

    /// A flow that has begun and not ended. The caller has locked it.
    async fn load_flow(&self, id: JobId) -> Work<Option<Loaded>> {
        let find = "SELECT definition::text, stopping FROM punctual_internal.flow_runs
                    WHERE job_id = $1 AND ended_at IS NULL";
        let steps = [
            Step::Rows(find, params![id.0]),
            Step::Rows(sql::jobs_by_id, params![vec![id.0]]),
            Step::Rows(sql::flow_steps, params![id.0, false]),
        ];
        let mut answers = self.pipeline(&steps).await?.into_iter().map(crate::session::Answer::rows);
        let mut next = || answers.next().unwrap_or_default();
        let run = rows::collect(&next(), |row| {
            let mut c = Columns::of(row);
            Ok((c.document("definition")?, c.optional_word()?))
        })?;
        let (job, steps) = (rows::collect(&next(), rows::job)?.pop(), rows::collect(&next(), flow_step)?);
        let Some((definition, stopping)) = run.into_iter().next() else { return Ok(None) };
        let job = job.ok_or_else(|| Failure::internal("the job of a flow is gone"))?;
        let steps = steps.into_iter().map(|step| step.state).collect();
        Ok(Some(Loaded { job, definition, progress: Progress { steps, stopping } }))
    }

    /// Asks what follows from events, and writes it; answers with the end of the flow, if it ended.
    async fn walk(&self, shape: &Shape<'_>, before: &Progress, events: &[Event]) -> Work<Option<FinishedRun>> {
        let job = shape.job();
        let mut facts = Facts::default();
        let (progress, moves) = loop {
            match shape.advance(before, events, &facts) {
                Ok(answer) => break answer,
                Err(missing) => self.load_fact(job.id, missing, &mut facts).await?,
            }
        };
        let stopping = (progress.stopping != before.stopping).then_some(progress.stopping).flatten();
        self.write_moves(job, &progress, &moves, stopping).await?;
        Ok(moves.end.map(|end| end.into_report(job.id)))
    }

    async fn load_fact(&self, id: JobId, missing: Missing, facts: &mut Facts) -> Work<()> {
        match missing {
            Missing::Output(step) => {
                let find = "SELECT output::text FROM punctual_internal.flow_steps WHERE flow_id = $1 AND step = $2";
                let params = params![id.0, step_number(step)];
                let output = self.one(find, params, |row| Columns::of(row).optional_json()).await?.flatten();
                facts.outputs.insert(step, output);
            }
            Missing::Items(step, count) => {
                let params = params![id.0, step_number(step), i64::from(count)];
                let items = self.all(sql::open_flow_items, params, |row| {
                    let mut c = Columns::of(row);
                    Ok((c.small()?, c.json()?))
                });
                let items: Vec<(u32, Json)> = items.await?;
                if items.len() < usize::try_from(count).unwrap_or(usize::MAX) {
                    return Err(Failure::internal("items of a flow are gone"));
                }
                facts.items.insert(step, items);
            }
            Missing::ItemOutputs(step) => {
                let find = "SELECT output::text FROM punctual_internal.flow_items
                            WHERE flow_id = $1 AND step = $2 ORDER BY item";
                let outputs = self.all(find, params![id.0, step_number(step)], |row| Columns::of(row).optional_json());
                facts.item_outputs.insert(step, outputs.await?);
            }
        }
        Ok(())
    }

    async fn write_moves(
        &self, job: &Job, progress: &Progress, moves: &Moves, stopping: Option<ErrorCode>,
    ) -> Work<()> {
        let changed = moves.changed.iter();
        let mut steps: Vec<Step<'_>> =
            changed.map(|n| self.step_row(job.id, *n, &progress.steps[*n], moves.outputs.get(n))).collect();
        for (step, values) in &moves.items {
            let insert = "INSERT INTO punctual_internal.flow_items (flow_id, step, item, value)
                          SELECT $1, $2, n - 1, value::json FROM unnest($3::text[]) WITH ORDINALITY AS w (value, n)";
            let values: Vec<&str> = values.iter().map(Json::as_str).collect();
            steps.push(Step::Count(insert, params![job.id.0, step_number(*step), values]));
        }
        for (step, item, why) in &moves.unfit {
            let unfit = "UPDATE punctual_internal.flow_items SET outcome = 'failed', error = $4
                         WHERE flow_id = $1 AND step = $2 AND item = $3";
            let params = params![job.id.0, step_number(*step), item_number(Some(*item)), storable_text(why)];
            steps.push(Step::Count(unfit, params));
        }
        if let Some(code) = stopping {
            let stop = "UPDATE punctual_internal.flow_runs SET stopping = $2 WHERE job_id = $1";
            steps.push(Step::Count(stop, params![job.id.0, code.as_str()]));
        }
        if moves.end.is_some() {
            let ended = "UPDATE punctual_internal.flow_runs SET ended_at = $2 WHERE job_id = $1";
            steps.push(Step::Count(ended, params![job.id.0, self.at()]));
        }
        if !steps.is_empty() {
            self.pipeline(&steps).await?;
        }
        self.make_steps(job.id, &moves.jobs).await
    }

    fn step_row(&self, id: JobId, step: usize, state: &StepState, output: Option<&Json>) -> Step<'static> {
        let items = state.items;
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        Step::Count(
            sql::write_flow_step,
            params![
                id.0,
                step_number(step),
                number(state.waits),
                state.job_id.map(|id| id.0),
                state.started.then(|| self.at()),
                state.outcome.map(|_| self.at()),
                state.outcome.map(Outcome::as_str),
                state.error_code.map(ErrorCode::as_str),
                state.error.as_deref().map(storable_text),
                output.map(|output| output.as_str().to_owned()),
                items.map(|items| number(items.total)),
                items.map_or(0, |items| number(items.started)),
                items.map_or(0, |items| number(items.ended)),
                items.map_or(0, |items| number(items.failed)),
            ],
        )
    }

    async fn make_steps(&self, flow: JobId, jobs: &[StepJob]) -> Work<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let origin = Origin::default();
        let making: Vec<Making<'_>> =
            jobs.iter().map(|job| Making { bits: self.id_bits(), spec: &job.spec, origin: &origin }).collect();
        let made = self.make_jobs(&making, true).await?;
        let params = params![
            flow.0,
            made.iter().map(|id| id.0).collect::<Vec<_>>(),
            jobs.iter().map(|job| step_number(job.step)).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.item.map(|item| item_number(Some(item)))).collect::<Vec<_>>(),
        ];
        self.execute(sql::link_flow_jobs, params).await?;
        Ok(())
    }
}

fn item_number(item: Option<u32>) -> i32 {
    item.map_or(-1, |item| i32::try_from(item).unwrap_or(i32::MAX))
}
