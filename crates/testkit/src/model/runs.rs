//! What the model says about ends: closing, retrying, cancelling, recovering.

use super::clockwork::Micros;
use super::{Closed, Job, Model, News, Notice, Results, Schedule, Spec, Whereabouts};
use punctual_core::run::{ErrorCode, Outcome, Trigger};

/// How a run is reported to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It did its work.
    Completed,
    /// It did not.
    Failed(ErrorCode),
    /// It was stopped.
    Cancelled,
}

impl Model {
    /// Closes a job that never started.
    pub fn close_unstarted(&mut self, job: usize, code: ErrorCode) {
        self.take_out(job);
        self.jobs[job].place = Whereabouts::Closed(Closed {
            started_at: None,
            finished_at: self.now,
            outcome: Outcome::Cancelled,
            code: Some(code),
            is_final: true,
        });
    }

    /// Asks a running job to stop; the first request stands.
    pub fn request_cancel(&mut self, job: usize, code: ErrorCode) {
        let now = self.now;
        if let Whereabouts::Running(running) = &mut self.jobs[job].place {
            running.cancel.get_or_insert((now, code));
        }
    }

    /// Closes a running job; hands back its retry.
    pub fn finish(&mut self, job: usize, ending: Ending) -> Option<usize> {
        let Whereabouts::Running(running) = self.jobs[job].place.clone() else { panic!("only what runs ends") };
        let (outcome, code) = match ending {
            Ending::Completed => (Outcome::Completed, None),
            Ending::Failed(code) => (Outcome::Failed, Some(code)),
            Ending::Cancelled => {
                (Outcome::Cancelled, Some(running.cancel.map_or(ErrorCode::Cancelled, |(_, code)| code)))
            }
        };
        let deleted = self.jobs[job].schedule.is_some_and(|index| self.schedules[index].deleted);
        let wanted = running.cancel.is_none() && !deleted;
        let retry = match ending {
            Ending::Failed(code) if wanted => self.retry(job, code),
            _ => None,
        };
        self.take_out(job);
        self.jobs[job].place = Whereabouts::Closed(Closed {
            started_at: Some(running.started_at),
            finished_at: self.now,
            outcome,
            code,
            is_final: retry.is_none(),
        });
        let told = outcome == Outcome::Failed && wanted && retry.is_none();
        if told {
            self.tell(News::Failed(job));
        }
        self.tell_schedule(job, outcome, told);
        retry
    }

    pub(crate) fn tell(&mut self, news: News) {
        self.notices.push(Notice { news, at: self.now });
    }

    fn tell_schedule(&mut self, job: usize, outcome: Outcome, told: bool) {
        let (now, Some(index)) = (self.now, self.jobs[job].schedule) else { return };
        let results = &mut self.schedules[index].results;
        let (success_at, failures) = match outcome {
            Outcome::Completed => (Some(now), 0),
            Outcome::Failed => (results.success_at, results.failures + 1),
            Outcome::Cancelled | Outcome::Skipped => (results.success_at, results.failures),
        };
        let recovered = results.told && outcome == Outcome::Completed;
        let told = (results.told || told) && outcome != Outcome::Completed;
        *results = Results { at: Some(now), outcome: Some(outcome), success_at, failures, told };
        if recovered {
            self.tell(News::Recovered(job));
        }
    }

    fn retry(&mut self, job: usize, code: ErrorCode) -> Option<usize> {
        let failed = self.jobs[job].clone();
        let interrupted = matches!(code, ErrorCode::NodeLost | ErrorCode::Interrupted);
        let worth_it = [ErrorCode::TargetError, ErrorCode::BadOutput, ErrorCode::Timeout, ErrorCode::NoExecutor];
        let hopeless = !interrupted && code != ErrorCode::Internal && !worth_it.contains(&code);
        let failures = failed.failures + u32::from(!interrupted);
        let interruptions = failed.interruptions + u32::from(interrupted);
        let spent = if interrupted {
            interruptions > failed.spec.max_interruptions
        } else {
            failures >= failed.spec.max_attempts
        };
        if hopeless || spent {
            return None;
        }
        let wait = if interrupted { 0 } else { failed.spec.wait };
        let spec = Spec { trigger: Trigger::Retry, ..failed.spec.clone() };
        let retry = self.make_job(spec, failed.schedule, failed.slot, Some(self.now + wait));
        let link = Job {
            retry_of: Some(job),
            root: failed.root,
            attempt: failed.attempt + 1,
            failures,
            interruptions,
            ..self.jobs[retry].clone()
        };
        self.jobs[retry] = link;
        Some(retry)
    }

    /// Declares nodes lost, and closes what they ran, in an order that somebody else chose; hands back those, and
    /// their retries.
    pub fn recover(&mut self, nodes: &[usize], order: &[usize]) -> (Vec<usize>, Vec<usize>) {
        for node in nodes {
            self.nodes[*node].leased = false;
            self.tell(News::Lost(*node));
        }
        let lost = |job: &Job| matches!(&job.place, Whereabouts::Running(running) if !self.nodes[running.node].leased);
        let mut closed: Vec<usize> = (0..self.jobs.len()).filter(|job| lost(&self.jobs[*job])).collect();
        closed.sort_by_key(|job| order.iter().position(|other| other == job));
        let mut retries = Vec::new();
        for job in &closed {
            retries.extend(self.finish(*job, Ending::Failed(ErrorCode::NodeLost)));
        }
        (closed, retries)
    }

    /// When anything is due next: a schedule or a delayed job.
    pub fn next_due(&self) -> Option<Micros> {
        let due = |s: &Schedule| if s.paused_at.is_some() { s.resumes_at } else { s.next_due };
        let schedules = self.schedules.iter().filter(|s| !s.deleted).filter_map(due);
        let delayed = self.jobs.iter().filter_map(|job| match job.place {
            Whereabouts::Delayed(run_at) => Some(run_at),
            _ => None,
        });
        schedules.chain(delayed).min()
    }

    /// Whether the whole chain of a job ended, and was made, before an instant.
    pub fn chain_is_older_than(&self, job: usize, horizon: Micros) -> bool {
        let root = self.jobs[job].root;
        self.jobs.iter().filter(|other| other.root == root).all(|other| match &other.place {
            Whereabouts::Closed(closed) => closed.finished_at < horizon && other.created_at < horizon,
            _ => false,
        })
    }

    /// Whether a job of the same chain is alive.
    pub fn chain_is_alive(&self, job: usize) -> bool {
        let root = self.jobs[job].root;
        self.jobs.iter().any(|other| other.root == root && !matches!(other.place, Whereabouts::Closed(_)))
    }
}
