//! The book of alerts: takes in what happened and what is found, and says which messages are due.
//!
//! Whoever keeps it, a store inside a transaction, brings all rules and all alerts that are not closed, and writes back
//! what has changed. There is no clock in it, so that a whole night can be told in a table.

use super::alert::Alert;
use super::event::{Event, Finding, Happening, SubjectKind, cause};
use super::message::Message;
use super::port::{Findings, Look};
use super::rule::{GroupBy, RuleDefinition, Trigger};
use crate::id::AlertId;
use crate::name::Name;
use crate::run::ErrorCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The most alerts of one rule that are open at once; what is more shares the last one.
const OPEN_MAX: usize = 100;

/// What alerts beyond that are known by.
const REST: &str = "more causes";

/// How often is looked for what holds as long as it is found.
pub const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(15);

/// How far back a look goes at most. When nobody had anything to look for, what ended long ago concerns no rule that was
/// made since, and is too much to read.
const LOOK_BACK: SignedDuration = SignedDuration::from_mins(2);

/// What a rule remembers beside its alerts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleState {
    /// How often a schedule has failed without a success in between, by mark.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub in_a_row: BTreeMap<String, u32>,
    /// When the dead-man's switch was told last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub well_at: Option<Timestamp>,
}

/// A message on its way to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub channel: Name,
    /// What it tells.
    pub message: Message,
}

/// A rule with what it remembers.
#[derive(Debug, Clone)]
struct KeptRule {
    definition: RuleDefinition,
    state: RuleState,
    changed: bool,
}

/// Rules, open alerts, and what comes of them.
#[derive(Debug)]
pub struct AlertBook {
    rules: Vec<KeptRule>,
    alerts: Vec<Alert>,
    changed: BTreeSet<AlertId>,
    opened: usize,
    outgoing: Vec<Outgoing>,
}

/// What has changed in a book, and when it must be opened again.
#[derive(Debug, Default)]
pub struct Written {
    /// Alerts that are new or changed.
    pub alerts: Vec<Alert>,
    /// What rules remember, where that has changed.
    pub rules: Vec<(Name, RuleState)>,
    /// What is to be sent.
    pub outgoing: Vec<Outgoing>,
    /// How many alerts began.
    pub opened: usize,
}

/// What a pass over the book came to.
#[derive(Debug, Default)]
pub struct Passed {
    /// What is to be written.
    pub written: Written,
    /// When there is something to do again, if nothing happens.
    pub again_at: Option<Timestamp>,
    /// What somebody has to look for by now.
    pub look: Option<Look>,
}

/// Whether a pass has anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressing {
    /// It has.
    Now,
    /// Not before so much time has passed, unless something happens; not at all without one.
    NotBefore(Option<SignedDuration>),
}

impl Pressing {
    /// There is news or not, and something to do at an instant or not.
    pub fn of(news: bool, again_at: Option<Timestamp>, now: Timestamp) -> Self {
        if news || again_at.is_some_and(|at| at <= now) {
            return Self::Now;
        }
        Self::NotBefore(again_at.map(|at| at.duration_since(now)))
    }
}

/// When somebody looked last, and up to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastLook {
    /// When.
    pub at: Timestamp,
    /// Runs that ended up to this instant were looked at.
    pub through: Timestamp,
}

/// One pass: takes in what happened and what was found, and tells what is due.
pub fn pass(
    mut book: AlertBook, events: &[Event], findings: Option<&Findings>, last_look: LastLook, now: Timestamp,
    new: &mut dyn NewAlerts,
) -> Passed {
    for event in events {
        book.hear(event, new);
    }
    if let Some(found) = findings {
        book.find(&found.findings, now, new);
    }
    book.advance(now, findings.map(|found| found.well));
    let (wanted, well_due) = (book.wanted(), book.well_due());
    let looked_at = if findings.is_some() { now } else { last_look.at };
    let next_look = looked_at.saturating_add(LOOK_EVERY).unwrap_or(Timestamp::MAX);
    let next_look = if wanted.is_empty() { well_due.map(|due| due.max(next_look)) } else { Some(next_look) };
    // A dead-man's switch may be told more often than is looked otherwise.
    let look_at = [next_look, well_due.filter(|due| *due > looked_at)].into_iter().flatten().min();
    let look = (findings.is_none() && look_at.is_some_and(|at| at <= now))
        .then(|| Look { wanted, since: last_look.through.max(earlier(now, LOOK_BACK)) });
    let again_at = [book.due_at(), look_at].into_iter().flatten().min();
    Passed { written: book.close(), again_at, look }
}

/// Where ids and codes of new alerts come from.
pub trait NewAlerts {
    /// A new identity.
    fn alert_id(&mut self) -> AlertId;
    /// 128 bits that nobody can guess.
    fn code(&mut self) -> String;
}

impl AlertBook {
    /// Opens the book. Rules that are off count as absent: their alerts end.
    pub fn open(rules: Vec<(RuleDefinition, RuleState)>, alerts: Vec<Alert>) -> Self {
        let rules = rules.into_iter().filter(|(definition, _)| definition.enabled);
        let rules = rules.map(|(definition, state)| KeptRule { definition, state, changed: false }).collect();
        Self { rules, alerts, changed: BTreeSet::new(), opened: 0, outgoing: Vec::new() }
    }

    /// Takes in something that happened.
    pub fn hear(&mut self, event: &Event, new: &mut dyn NewAlerts) {
        if event.happening == Happening::Recovered {
            self.hear_recovery(event);
        }
        for index in 0..self.rules.len() {
            let rule = &mut self.rules[index];
            let on = rule.definition.on;
            if !event.happening.concerns(on) || !event.place.is_in(&rule.definition.scope) {
                continue;
            }
            if event.happening == Happening::Recovered && on != Trigger::Recovery {
                continue;
            }
            let times = match event.happening {
                Happening::SlotsMissed { count } => count,
                Happening::Failed if on == Trigger::FailuresInARow => rule.counts_to_its_number(event),
                _ => 1,
            };
            if times == 0 {
                continue;
            }
            let key = rule.definition.key_of(event);
            let alert = self.alert_of(index, key, event.at, new);
            alert.join(&event.subject, event.at, times, false);
            alert.error_code = event.error_code.or(alert.error_code);
            alert.error = event.error.clone().or(alert.error.take());
            alert.job_id = event.job_id.or(alert.job_id);
            alert.detail.clone_from(&event.detail);
            let id = alert.id;
            self.changed.insert(id);
        }
    }

    /// A schedule is well again: whichever alert has it, whatever its rule's scope has become meanwhile.
    fn hear_recovery(&mut self, event: &Event) {
        let mark = event.subject.mark();
        for rule in &mut self.rules {
            rule.changed |= rule.state.in_a_row.remove(&mark).is_some();
        }
        let of_failures = |alert: &&mut Alert| matches!(alert.trigger, Trigger::Failure | Trigger::FailuresInARow);
        for alert in self.alerts.iter_mut().filter(of_failures) {
            if alert.leave(&mark, event.at) {
                self.changed.insert(alert.id);
            }
        }
    }

    /// Takes in everything that was found at an instant; what is not among it any more is over.
    pub fn find(&mut self, findings: &[Finding], now: Timestamp, new: &mut dyn NewAlerts) {
        for index in 0..self.rules.len() {
            let rule = &self.rules[index].definition;
            if !rule.on.is_state() {
                continue;
            }
            let concerns = |finding: &&Finding| {
                finding.trigger == rule.on && finding.lasted >= rule.threshold() && finding.place.is_in(&rule.scope)
            };
            let found: Vec<&Finding> = findings.iter().filter(concerns).collect();
            let marks: BTreeSet<String> = found.iter().map(|finding| finding.subject.mark()).collect();
            let name = rule.name.clone();
            for finding in found {
                let key = self.rules[index].definition.key_of_finding(finding);
                let alert = self.alert_of(index, key, now, new);
                // Nothing is written for what is as it was.
                if alert.join(&finding.subject, now, 1, true) {
                    alert.job_id = finding.job_id.or(alert.job_id);
                    alert.detail = Some(crate::duration::format_duration(rounded(finding.lasted)));
                    let id = alert.id;
                    self.changed.insert(id);
                }
            }
            for alert in self.alerts.iter_mut().filter(|alert| alert.rule == name && alert.closed_at.is_none()) {
                let gone: Vec<String> = alert.members.keys().filter(|mark| !marks.contains(*mark)).cloned().collect();
                for mark in gone {
                    if alert.leave(&mark, now) {
                        self.changed.insert(alert.id);
                    }
                }
            }
        }
    }

    /// Tells what is due. `well` says whether anything is overdue, if somebody has looked.
    pub fn advance(&mut self, now: Timestamp, well: Option<bool>) {
        for alert in self.alerts.iter_mut().filter(|alert| alert.closed_at.is_none()) {
            let Some(rule) = self.rules.iter().find(|rule| rule.definition.name == alert.rule) else {
                alert.closed_at = Some(now);
                self.changed.insert(alert.id);
                continue;
            };
            while alert.closed_at.is_none() && alert.due_at(&rule.definition) <= now {
                self.changed.insert(alert.id);
                if let Some(telling) = alert.advance(&rule.definition, now) {
                    let message = alert.message(telling.occasion, now);
                    let to = telling.channels.into_iter();
                    self.outgoing.extend(to.map(|channel| Outgoing { channel, message: message.clone() }));
                }
            }
        }
        if well == Some(true) {
            self.tell_that_all_is_well(now);
        }
    }

    fn tell_that_all_is_well(&mut self, now: Timestamp) {
        for rule in self.rules.iter_mut().filter(|rule| rule.well_due() <= now) {
            let Some(step) = rule.definition.steps.first() else { continue };
            let message = Message::well(now, rule.definition.name.clone());
            let to = step.channels.iter().cloned();
            self.outgoing.extend(to.map(|channel| Outgoing { channel, message: message.clone() }));
            rule.state.well_at = Some(now);
            rule.changed = true;
        }
    }

    /// What somebody has to look for, and what each must have lasted at least.
    pub fn wanted(&self) -> BTreeMap<Trigger, SignedDuration> {
        let mut wanted: BTreeMap<Trigger, SignedDuration> = BTreeMap::new();
        for KeptRule { definition, .. } in self.rules.iter().filter(|rule| rule.definition.on.is_state()) {
            let least = wanted.entry(definition.on).or_insert(SignedDuration::MAX);
            *least = (*least).min(definition.threshold());
        }
        wanted
    }

    /// When a dead-man's switch is to be told next; `None` when there is none.
    pub fn well_due(&self) -> Option<Timestamp> {
        self.rules.iter().map(KeptRule::well_due).filter(|due| *due < Timestamp::MAX).min()
    }

    /// When there is something to do next, if nothing happens.
    pub fn due_at(&self) -> Option<Timestamp> {
        let open = self.alerts.iter().filter(|alert| alert.closed_at.is_none());
        let due = open.map(|alert| self.due_of(alert)).min();
        due.filter(|due| *due < Timestamp::MAX)
    }

    fn due_of(&self, alert: &Alert) -> Timestamp {
        let rule = self.rules.iter().find(|rule| rule.definition.name == alert.rule);
        rule.map_or(Timestamp::MAX, |rule| alert.due_at(&rule.definition))
    }

    /// Closes the book.
    pub fn close(mut self) -> Written {
        let outgoing = std::mem::take(&mut self.outgoing);
        let changed = std::mem::take(&mut self.changed);
        let alerts = self.alerts.into_iter().filter(|alert| changed.contains(&alert.id)).collect();
        let rules = self.rules.into_iter().filter(|rule| rule.changed);
        let rules = rules.map(|rule| (rule.definition.name, rule.state)).collect();
        Written { alerts, rules, outgoing, opened: self.opened }
    }

    fn position(&self, rule: &Name, key: &str) -> Option<usize> {
        self.alerts.iter().position(|alert| alert.closed_at.is_none() && alert.rule == *rule && alert.key == key)
    }

    /// The open alert of a rule with this key, which begins now if there is none.
    fn alert_of(&mut self, rule: usize, key: String, at: Timestamp, new: &mut dyn NewAlerts) -> &mut Alert {
        let (name, trigger) = (self.rules[rule].definition.name.clone(), self.rules[rule].definition.on);
        let mut found = self.position(&name, &key);
        let mut key = key;
        if found.is_none() {
            let of_rule = |alert: &&Alert| alert.closed_at.is_none() && alert.rule == name;
            if self.alerts.iter().filter(of_rule).count() >= OPEN_MAX {
                REST.clone_into(&mut key);
                found = self.position(&name, &key);
            }
        }
        let index = found.unwrap_or_else(|| {
            self.alerts.push(new_alert(new, name, key, trigger, at));
            self.opened += 1;
            self.alerts.len() - 1
        });
        &mut self.alerts[index]
    }
}

fn new_alert(new: &mut dyn NewAlerts, rule: Name, key: String, trigger: Trigger, at: Timestamp) -> Alert {
    Alert {
        id: new.alert_id(),
        rule,
        key,
        code: new.code(),
        trigger,
        opened_at: at,
        last_at: at,
        count: 0,
        members: BTreeMap::new(),
        unnamed: 0,
        error_code: None,
        error: None,
        job_id: None,
        detail: None,
        steps_told: 0,
        first_told_at: None,
        last_told_at: None,
        members_told: 0,
        told: BTreeSet::new(),
        acknowledged: None,
        recovered_at: None,
        closed_at: None,
    }
}

impl KeptRule {
    /// Counts a failure; says how many are told by it: none before there are as many in a row as the rule asks for, all
    /// of them then, and one by one after that.
    fn counts_to_its_number(&mut self, event: &Event) -> u64 {
        if event.subject.kind != SubjectKind::Schedule {
            return 0;
        }
        let failures = self.state.in_a_row.entry(event.subject.mark()).or_default();
        *failures = failures.saturating_add(1);
        self.changed = true;
        let wanted = self.definition.failures.unwrap_or(1);
        match (*failures).cmp(&wanted) {
            Ordering::Less => 0,
            Ordering::Equal => u64::from(wanted),
            Ordering::Greater => 1,
        }
    }

    fn well_due(&self) -> Timestamp {
        match (self.definition.on, self.definition.every) {
            (Trigger::AllWell, Some(every)) => {
                self.state.well_at.map_or(Timestamp::MIN, |at| at.saturating_add(every).unwrap_or(Timestamp::MAX))
            }
            _ => Timestamp::MAX,
        }
    }
}

impl RuleDefinition {
    /// What makes one alert of several events.
    fn key_of(&self, event: &Event) -> String {
        match self.group_by {
            GroupBy::Subject => event.subject.mark(),
            GroupBy::Cause if event.happening == Happening::Failed => {
                cause(event.error_code.unwrap_or(ErrorCode::TargetError), event.error.as_deref().unwrap_or_default())
            }
            GroupBy::Cause | GroupBy::Rule => String::new(),
        }
    }

    fn key_of_finding(&self, finding: &Finding) -> String {
        match self.group_by {
            GroupBy::Subject => finding.subject.mark(),
            GroupBy::Cause | GroupBy::Rule => String::new(),
        }
    }
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

/// To whole seconds, for people.
fn rounded(lasted: SignedDuration) -> SignedDuration {
    SignedDuration::from_secs(lasted.as_secs())
}

#[cfg(test)]
mod tests;
