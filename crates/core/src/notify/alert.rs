//! Alerts: a trouble that a rule covers, from its beginning to its end, and whom it is time to tell.

use super::event::Subject;
use super::message::{Message, Occasion};
use super::rule::{RuleDefinition, Trigger};
use crate::id::{AlertId, JobId};
use crate::name::Name;
use crate::run::ErrorCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most subjects that one alert knows by name; the rest are counted.
pub const MEMBERS_MAX: usize = 1000;

/// How many subjects a message names.
const SUBJECTS_TOLD: usize = 10;

/// How soon after a message those who were told hear that more has joined.
const MORE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// When a trouble that can end without a word is taken to be over, counted from when it happened last.
const SILENCE: SignedDuration = SignedDuration::from_hours(1);

/// The same for a schedule that failed: its next success ends it, and that may be a month away.
const SILENCE_OF_SCHEDULE: SignedDuration = SignedDuration::from_hours(32 * 24);

/// One of those in trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub subject: Subject,
    /// How often.
    pub count: u64,
    /// Since when.
    pub since: Timestamp,
    /// When it was over for him, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_at: Option<Timestamp>,
}

/// Who takes care of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// Since when.
    pub at: Timestamp,
    /// Who; unknown when it came by a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// A word of his.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A trouble that a rule covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Its identity.
    pub id: AlertId,
    /// The rule.
    pub rule: Name,
    /// What makes it one: its cause, its subject, or nothing but the rule.
    pub key: String,
    /// Whoever knows it may acknowledge; it stands in the messages.
    pub code: String,
    /// What the rule is about.
    pub trigger: Trigger,
    /// When it began.
    pub opened_at: Timestamp,
    /// When it was seen last.
    pub last_at: Timestamp,
    /// How often it happened.
    pub count: u64,
    /// Who is in trouble, by mark.
    pub members: BTreeMap<String, Member>,
    /// How many more there were than are known by name.
    #[serde(default)]
    pub unnamed: u64,
    /// The latest error.
    #[serde(default)]
    pub error_code: Option<ErrorCode>,
    /// In words.
    #[serde(default)]
    pub error: Option<String>,
    /// The latest job.
    #[serde(default)]
    pub job_id: Option<JobId>,
    /// A line beside that.
    #[serde(default)]
    pub detail: Option<String>,
    /// How many steps were told.
    #[serde(default)]
    pub steps_told: u32,
    /// When the first one was.
    #[serde(default)]
    pub first_told_at: Option<Timestamp>,
    /// When somebody was told last.
    #[serde(default)]
    pub last_told_at: Option<Timestamp>,
    /// How many had joined by then.
    #[serde(default)]
    pub members_told: u64,
    /// The channels that were told.
    #[serde(default)]
    pub told: BTreeSet<Name>,
    /// Who takes care of it.
    #[serde(default)]
    pub acknowledged: Option<Acknowledgement>,
    /// When the trouble was over.
    #[serde(default)]
    pub recovered_at: Option<Timestamp>,
    /// When nothing more was to be told of it.
    #[serde(default)]
    pub closed_at: Option<Timestamp>,
}

/// What an alert says to one or several channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// Why.
    pub occasion: Occasion,
    /// Whom.
    pub channels: Vec<Name>,
}

impl Alert {
    /// How many there are in trouble, or were.
    pub fn members_total(&self) -> u64 {
        self.members.len() as u64 + self.unnamed
    }

    /// Somebody takes care of it: no further step is told. The first one stands.
    pub fn acknowledge(&mut self, at: Timestamp, by: Option<String>, note: Option<String>) {
        if self.acknowledged.is_none() {
            self.acknowledged = Some(Acknowledgement { at, by, note });
        }
    }

    /// Somebody is in trouble; says whether that is new. Whoever was found already does not count again.
    pub(super) fn join(&mut self, subject: &Subject, at: Timestamp, times: u64, found_again: bool) -> bool {
        let (mark, room) = (subject.mark(), self.members.len() < MEMBERS_MAX);
        let known = self.members.get_mut(&mark);
        if found_again && known.as_ref().is_some_and(|member| member.recovered_at.is_none()) {
            return false;
        }
        self.count = self.count.saturating_add(times);
        self.last_at = self.last_at.max(at);
        self.recovered_at = None;
        match known {
            Some(member) => {
                member.count = member.count.saturating_add(times);
                if member.recovered_at.take().is_some() {
                    member.since = at;
                }
            }
            None if room => {
                let member = Member { subject: subject.clone(), count: times, since: at, recovered_at: None };
                self.members.insert(mark, member);
            }
            None => self.unnamed += 1,
        }
        true
    }

    /// Somebody is out of trouble; says whether he was in it. The last one ends it.
    pub(super) fn leave(&mut self, mark: &str, at: Timestamp) -> bool {
        let Some(member) = self.members.get_mut(mark).filter(|member| member.recovered_at.is_none()) else {
            return false;
        };
        member.recovered_at = Some(at);
        if self.members.values().all(|member| member.recovered_at.is_some()) {
            self.recovered_at = Some(at);
        }
        true
    }

    /// When there is something to do about it next, if nothing happens.
    pub fn due_at(&self, rule: &RuleDefinition) -> Timestamp {
        let due = match (self.recovered_at, self.closed_at) {
            (_, Some(closed)) => return closed,
            (Some(_), _) if self.told.is_empty() => self.first_due(rule),
            (Some(recovered), _) => spoken(rule, recovered),
            (None, _) => self.next_telling(rule).map_or(Timestamp::MAX, |(due, _)| due),
        };
        due.min(self.silent_at(rule))
    }

    fn first_due(&self, rule: &RuleDefinition) -> Timestamp {
        spoken(rule, later(self.opened_at, rule.wait))
    }

    /// When it is taken to be over although nobody said so. What is found again and again says so itself.
    fn silent_at(&self, rule: &RuleDefinition) -> Timestamp {
        let Some(first) = self.first_told_at.filter(|_| !self.trigger.is_state() && self.recovered_at.is_none()) else {
            return Timestamp::MAX;
        };
        let of_schedule = matches!(self.trigger, Trigger::Failure | Trigger::FailuresInARow)
            && self.members.values().any(|member| member.subject.kind == super::event::SubjectKind::Schedule);
        let patience = if of_schedule { SILENCE_OF_SCHEDULE } else { SILENCE };
        // Nobody falls silent before every step was told that waits for its time; reminders alone keep nothing alive.
        let steps = rule.steps.iter().filter_map(|step| step.after).filter(|_| self.acknowledged.is_none());
        let heard = steps.max().map_or(first, |after| later(first, after));
        later(heard.max(self.last_at), patience)
    }

    /// The next step, reminder or addition, and when it is due.
    fn next_telling(&self, rule: &RuleDefinition) -> Option<(Timestamp, Telling)> {
        if self.steps_told == 0 {
            let occasion = if self.trigger == Trigger::Recovery { Occasion::Recovered } else { Occasion::Opened };
            let channels = rule.steps.first()?.channels.clone();
            return Some((self.first_due(rule), Telling { occasion, channels }));
        }
        if self.acknowledged.is_some() {
            return None;
        }
        let (first, last) = (self.first_told_at?, self.last_told_at?);
        let more = || self.told.iter().cloned().collect();
        let step = rule.steps.get(self.steps_told as usize).map(|step| {
            let reached = step.failures.is_some_and(|failures| self.count >= u64::from(failures));
            let waited = step.after.map_or(Timestamp::MAX, |after| later(first, after));
            let due = if reached { last } else { waited };
            (spoken(rule, due), Telling { occasion: Occasion::Escalated, channels: step.channels.clone() })
        });
        let all_told = step.is_none();
        let reminder = rule.repeat_every.filter(|_| all_told).and_then(|every| {
            let channels = rule.steps.last()?.channels.clone();
            Some((spoken(rule, later(last, every)), Telling { occasion: Occasion::Reminder, channels }))
        });
        let joined = (self.members_total() > self.members_told).then(|| {
            let telling = Telling { occasion: Occasion::Reminder, channels: more() };
            (spoken(rule, later(last, MORE_AFTER)), telling)
        });
        [step, joined, reminder].into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// What is to be told now; says so once. Ends the alert when nothing more will be.
    pub(super) fn advance(&mut self, rule: &RuleDefinition, now: Timestamp) -> Option<Telling> {
        if self.closed_at.is_some() || self.due_at(rule) > now {
            return None;
        }
        if self.recovered_at.is_some() {
            return self.end(rule, now);
        }
        match self.next_telling(rule) {
            Some((due, telling)) if due <= now => {
                if telling.occasion != Occasion::Reminder {
                    self.steps_told += 1;
                }
                self.first_told_at.get_or_insert(now);
                self.last_told_at = Some(now);
                self.members_told = self.members_total();
                self.told.extend(telling.channels.iter().cloned());
                if self.trigger == Trigger::Recovery {
                    self.closed_at = Some(now);
                }
                Some(telling)
            }
            _ => {
                self.closed_at = Some(now);
                None
            }
        }
    }

    /// It is over. Who was told hears of it; if nobody was, the first step hears of all of it at once: a failure is
    /// never kept quiet because the next run went well.
    fn end(&mut self, rule: &RuleDefinition, now: Timestamp) -> Option<Telling> {
        self.closed_at = Some(now);
        if self.told.is_empty() {
            let channels = rule.steps.first()?.channels.clone();
            self.told.extend(channels.iter().cloned());
            (self.first_told_at, self.last_told_at) = (Some(now), Some(now));
            self.steps_told = 1;
            return Some(Telling { occasion: Occasion::Opened, channels });
        }
        let channels = self.told.iter().cloned().collect();
        rule.tells_recovery().then_some(Telling { occasion: Occasion::Recovered, channels })
    }

    /// What it says.
    pub fn message(&self, occasion: Occasion, now: Timestamp) -> Message {
        let mut members: Vec<&Member> = self.members.values().collect();
        // Whoever is still in trouble comes first, and among them who came first.
        members.sort_by_key(|member| (member.recovered_at.is_some(), member.since));
        Message {
            occasion,
            at: now,
            rule: Some(self.rule.clone()),
            trigger: Some(self.trigger),
            alert_id: Some(self.id),
            step: self.steps_told.max(1),
            count: self.count,
            subjects: members.iter().take(SUBJECTS_TOLD).map(|member| member.subject.clone()).collect(),
            subjects_total: self.members_total(),
            opened_at: Some(self.opened_at),
            last_at: Some(self.last_at),
            recovered_at: self.recovered_at,
            error_code: self.error_code,
            error: self.error.clone(),
            job_id: self.job_id,
            detail: self.detail.clone(),
            acknowledge: (self.recovered_at.is_none() && self.trigger != Trigger::Recovery).then(|| self.code.clone()),
        }
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// When something that is due may be said.
fn spoken(rule: &RuleDefinition, due: Timestamp) -> Timestamp {
    if due == Timestamp::MAX { due } else { rule.quiet.as_ref().map_or(due, |quiet| quiet.over_at(due)) }
}
