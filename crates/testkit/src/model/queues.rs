//! What the model says about queues: a list in order, and who may be taken from it.

use super::clockwork::Micros;
use super::{Job, Line, Model, Running, Spec, Whereabouts};
use punctual_core::run::ErrorCode;

impl Model {
    /// A queue, made by its first use.
    pub fn line(&mut self, queue: &str) -> &mut Line {
        self.lines.entry(queue.to_owned()).or_default()
    }

    /// Makes a job and puts it behind everything of its priority.
    pub fn make_job(
        &mut self, spec: Spec, schedule: Option<usize>, slot: Option<Micros>, run_at: Option<Micros>,
    ) -> usize {
        let index = self.jobs.len();
        let place = run_at.filter(|at| *at > self.now).map_or(Whereabouts::Queued, Whereabouts::Delayed);
        let queued = place == Whereabouts::Queued;
        self.jobs.push(Job {
            priority: spec.priority,
            spec,
            created_at: self.now,
            schedule,
            slot,
            retry_of: None,
            root: index,
            attempt: 1,
            failures: 0,
            interruptions: 0,
            queueing: 0,
            place,
            forgotten: false,
        });
        if queued {
            self.put_at_the_back(index);
        }
        index
    }

    fn put_at_the_back(&mut self, job: usize) {
        self.queueings += 1;
        self.jobs[job].queueing = self.queueings;
        let priority = self.jobs[job].priority;
        let at = self.count_in_line(job, |other| other >= priority);
        let queue = self.jobs[job].spec.queue.clone();
        self.line(&queue).order.insert(at, job);
    }

    fn count_in_line(&mut self, job: usize, goes_before: impl Fn(i32) -> bool) -> usize {
        let order = self.line(&self.jobs[job].spec.queue.clone()).order.clone();
        order.iter().take_while(|other| goes_before(self.jobs[**other].priority)).count()
    }

    /// Takes a job out of the list of its queue.
    pub(super) fn take_out(&mut self, job: usize) {
        let queue = self.jobs[job].spec.queue.clone();
        self.line(&queue).order.retain(|other| *other != job);
    }

    /// The jobs that wait in a queue, in order.
    pub fn queued(&self, queue: &str) -> Vec<usize> {
        let order = self.lines.get(queue).map(|line| line.order.clone()).unwrap_or_default();
        order.into_iter().filter(|job| self.jobs[*job].place == Whereabouts::Queued).collect()
    }

    /// Whether a queued job may be taken: the first of its key, and none of it runs.
    pub fn is_ready(&self, job: usize) -> bool {
        let Some(key) = &self.jobs[job].spec.key else { return true };
        let of_key = |other: &Job| other.spec.key.as_ref() == Some(key);
        let held = self.jobs.iter().any(|other| of_key(other) && matches!(other.place, Whereabouts::Running(_)));
        let first = self.queued(&self.jobs[job].spec.queue).into_iter().find(|other| of_key(&self.jobs[*other]));
        !held && first == Some(job)
    }

    /// Moves delayed jobs whose time has come, the earliest first.
    pub fn promote(&mut self) -> usize {
        let mut due: Vec<(Micros, Micros, usize)> = Vec::new();
        for (index, job) in self.jobs.iter().enumerate() {
            if let Whereabouts::Delayed(run_at) = job.place
                && run_at <= self.now
            {
                due.push((run_at, job.created_at, index));
            }
        }
        due.sort_unstable();
        for (_, _, job) in &due {
            self.jobs[*job].place = Whereabouts::Queued;
            self.put_at_the_back(*job);
        }
        due.len()
    }

    /// Moves a queued job to the front of its priority.
    pub fn move_to_front(&mut self, job: usize) {
        let priority = self.jobs[job].priority;
        self.take_out(job);
        let at = self.count_in_line(job, |other| other > priority);
        self.insert_moved(job, at);
    }

    /// Moves a queued job to the back of a priority.
    pub fn move_to_back_of(&mut self, job: usize, priority: i32) {
        self.take_out(job);
        self.jobs[job].priority = priority;
        let at = self.count_in_line(job, |other| other >= priority);
        self.insert_moved(job, at);
    }

    /// Moves a queued job directly beside another one of its queue.
    pub fn move_beside(&mut self, job: usize, other: usize, behind: bool) {
        self.take_out(job);
        self.jobs[job].priority = self.jobs[other].priority;
        let queue = self.jobs[job].spec.queue.clone();
        let found = self.line(&queue).order.iter().position(|candidate| *candidate == other);
        let at = found.expect("the other one is in the same queue");
        self.insert_moved(job, if behind { at + 1 } else { at });
    }

    fn insert_moved(&mut self, job: usize, at: usize) {
        let queue = self.jobs[job].spec.queue.clone();
        let line = self.line(&queue);
        line.order.insert(at, job);
        line.moves += 1;
    }

    /// Replaces a queued job by one with another input, at its exact place.
    pub fn edit(&mut self, job: usize, input: u32) -> usize {
        let old = self.jobs[job].clone();
        let index = self.jobs.len();
        let root = if old.retry_of.is_some() { old.root } else { index };
        let spec = Spec { input, ..old.spec };
        self.jobs.push(Job { spec, created_at: self.now, root, ..old });
        let queue = self.jobs[index].spec.queue.clone();
        let line = self.line(&queue);
        let at = line.order.iter().position(|other| *other == job).expect("it is queued");
        line.order.insert(at, index);
        self.close_unstarted(job, ErrorCode::Replaced);
        index
    }

    /// Hands out jobs of one queue in its order.
    pub fn claim(&mut self, node: usize, queue: &str, limit: usize) -> Vec<usize> {
        let now = self.now;
        let line = self.line(queue);
        let moves_seen = line.moves;
        if line.paused || line.held_until.is_some_and(|until| until > now) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for job in self.queued(queue) {
            if taken.len() < limit && self.is_ready(job) {
                let running = Running { node, started_at: now, cancel: None, moves_seen };
                self.jobs[job].place = Whereabouts::Running(running);
                taken.push(job);
            }
        }
        taken
    }

    /// Hands out jobs of all queues, those of a higher priority first and then those that were queued first. It knows
    /// nothing of jobs that were moved by hand.
    pub fn claim_anywhere(&mut self, node: usize, limit: usize) -> Vec<usize> {
        let now = self.now;
        let open = |line: &&Line| !line.paused && line.held_until.is_none_or(|until| until <= now);
        let lines = self.lines.values().filter(open).flat_map(|line| line.order.iter().copied());
        let mut ready: Vec<usize> =
            lines.filter(|job| self.jobs[*job].place == Whereabouts::Queued && self.is_ready(*job)).collect();
        ready.sort_by_key(|job| (std::cmp::Reverse(self.jobs[*job].priority), self.jobs[*job].queueing));
        ready.truncate(limit);
        for job in &ready {
            let moves_seen = self.lines[&self.jobs[*job].spec.queue].moves;
            self.jobs[*job].place = Whereabouts::Running(Running { node, started_at: now, cancel: None, moves_seen });
        }
        ready
    }

    /// Puts a job back that was claimed; its place in the list was kept.
    pub fn give_back(&mut self, job: usize) {
        self.jobs[job].place = Whereabouts::Queued;
    }
}
