//! Rules: of what people are told, by which channels, in which steps, and when they are left in peace.

use super::channel::ChannelKind;
use super::quiet::QuietHours;
use crate::duration;
use crate::invalid::Invalid;
use crate::name::{self, Name};
use crate::words::words;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most steps of one rule.
pub const STEPS_MAX: usize = 10;

/// The most channels of one step.
pub const STEP_CHANNELS_MAX: usize = 10;

/// The most rules of one store.
pub const RULES_MAX: usize = 500;

words! {
    /// What a rule is about.
    pub enum Trigger as "trigger" {
        /// A job failed, and nothing follows.
        Failure = "failure",
        /// A schedule failed so many times without a success in between.
        FailuresInARow = "failures_in_a_row",
        /// A schedule whose failure was news succeeded again.
        Recovery = "recovery",
        /// A job of a schedule started, or still waits, so long after its slot.
        LateStart = "late_start",
        /// Slots passed without a run.
        MissedSlots = "missed_slots",
        /// A run takes so long.
        LongRun = "long_run",
        /// Jobs wait for so long that no node can run.
        NoExecutor = "no_executor",
        /// The oldest job of a queue has waited for so long.
        QueueTooOld = "queue_too_old",
        /// A schedule was not decided on for so long after it was due: nobody fires.
        Overdue = "overdue",
        /// A node was given up.
        NodeLost = "node_lost",
        /// The database's clock jumped.
        ClockJumped = "clock_jumped",
        /// Nothing is overdue: the dead-man's switch is told so, every so often.
        AllWell = "all_well",
    }
}

impl Trigger {
    /// How long something must last when the rule does not say; `None` for what happens at an instant.
    pub fn usual_after(self) -> Option<SignedDuration> {
        match self {
            Self::LateStart | Self::NoExecutor | Self::Overdue => Some(SignedDuration::from_mins(1)),
            Self::QueueTooOld => Some(SignedDuration::from_mins(10)),
            Self::LongRun => Some(SignedDuration::from_hours(1)),
            _ => None,
        }
    }

    /// Whether it holds as long as it is found, and is over when it is not found any more.
    pub fn is_state(self) -> bool {
        self.usual_after().is_some()
    }

    /// Whether those who were told hear of its end, too, when the rule does not say.
    fn usually_tells_recovery(self) -> bool {
        !matches!(self, Self::LateStart | Self::Recovery | Self::MissedSlots | Self::NodeLost | Self::ClockJumped)
    }
}

words! {
    /// What makes one alert out of several troubles.
    pub enum GroupBy as "grouping" {
        /// The same cause, whichever schedules or jobs it hits.
        Cause = "cause",
        /// The same schedule, queue or node.
        Subject = "subject",
        /// The same rule.
        Rule = "rule",
    }
}

/// Where a rule looks; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// At this schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Name>,
    /// At schedules with this label, `key` or `key=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// At this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

impl Scope {
    /// Whether it looks everywhere.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Who is told, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The channels.
    pub channels: Vec<Name>,
    /// So long after the alert began; the first step waits for the rule's `wait` instead.
    #[serde(with = "duration::optional_text", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SignedDuration>,
    /// Or as soon as it has happened so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
}

/// What a user says about a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleDefinition {
    /// What people call it.
    pub name: Name,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// Whether it is looked at.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What it is about.
    pub on: Trigger,
    /// How long it must last, for those that last.
    #[serde(with = "duration::optional_text", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SignedDuration>,
    /// How many failures in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// How often the dead-man's switch is told.
    #[serde(with = "duration::optional_text", default, skip_serializing_if = "Option::is_none")]
    pub every: Option<SignedDuration>,
    /// Where it looks.
    #[serde(default, skip_serializing_if = "Scope::is_all")]
    pub scope: Scope,
    /// Who is told, in order.
    pub steps: Vec<Step>,
    /// How long more of the same is waited for before the first message.
    #[serde(with = "duration::text", default = "usual_wait")]
    pub wait: SignedDuration,
    /// What makes one alert.
    #[serde(default = "by_cause")]
    pub group_by: GroupBy,
    /// How often the last step is reminded while nobody has acknowledged.
    #[serde(with = "duration::optional_text", default, skip_serializing_if = "Option::is_none")]
    pub repeat_every: Option<SignedDuration>,
    /// When nobody is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// Whether those who were told hear of the end; absent means as is usual for the trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell_recovery: Option<bool>,
}

fn yes() -> bool {
    true
}

/// How long more of the same is waited for when a rule does not say.
pub fn usual_wait() -> SignedDuration {
    SignedDuration::from_secs(10)
}

fn by_cause() -> GroupBy {
    GroupBy::Cause
}

impl RuleDefinition {
    /// A rule that tells some channels at once, in one step.
    pub fn new(name: Name, on: Trigger, channels: Vec<Name>) -> Self {
        Self {
            name,
            description: String::new(),
            enabled: true,
            on,
            after: None,
            failures: None,
            every: None,
            scope: Scope::default(),
            steps: vec![Step { channels, after: None, failures: None }],
            wait: usual_wait(),
            group_by: by_cause(),
            repeat_every: None,
            quiet: None,
            tell_recovery: None,
        }
    }

    /// How long it must last.
    pub fn threshold(&self) -> SignedDuration {
        self.after.or(self.on.usual_after()).unwrap_or(SignedDuration::ZERO)
    }

    /// Whether those who were told hear of the end.
    pub fn tells_recovery(&self) -> bool {
        self.tell_recovery.unwrap_or_else(|| self.on.usually_tells_recovery())
    }

    /// The names of all its channels, each once.
    pub fn channels(&self) -> BTreeSet<&Name> {
        self.steps.iter().flat_map(|step| &step.channels).collect()
    }

    /// Refuses what could not have been meant.
    pub fn validate(&self) -> Result<(), Invalid> {
        name::check_text("description", &self.description)?;
        self.check_trigger()?;
        self.check_scope()?;
        self.check_steps()?;
        let day = SignedDuration::from_hours(24);
        if self.wait > day {
            return Err(Invalid::new("wait", "is longer than a day").remedy("wait for seconds or minutes"));
        }
        duration::check("wait", self.wait)?;
        self.repeat_every.map_or(Ok(()), |every| at_least_a_minute("repeat_every", every))?;
        self.quiet.as_ref().map_or(Ok(()), QuietHours::validate)
    }

    /// Refuses channels that are not there, and those of a kind that says nothing of the trigger.
    pub fn check_channels(&self, known: &BTreeMap<Name, ChannelKind>) -> Result<(), Invalid> {
        for name in self.channels() {
            match known.get(name) {
                None => {
                    return Err(Invalid::new("steps", format!("name the channel `{name}`, which is not there"))
                        .remedy("make it first: punctual channel add"));
                }
                Some(ChannelKind::Ping) if self.on != Trigger::AllWell => {
                    return Err(Invalid::new(
                        "steps",
                        format!("name `{name}`, which can say that all is well and no more"),
                    )
                    .remedy("use it in a rule on all_well, and a webhook here"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn check_trigger(&self) -> Result<(), Invalid> {
        let only = |field: &str, given: bool, wanted: bool| match (given, wanted) {
            (true, false) => {
                Err(Invalid::new(field, format!("means nothing to a rule on {}", self.on)).remedy("leave it out"))
            }
            _ => Ok(()),
        };
        only("after", self.after.is_some(), self.on.is_state())?;
        only("failures", self.failures.is_some(), self.on == Trigger::FailuresInARow)?;
        only("every", self.every.is_some(), self.on == Trigger::AllWell)?;
        self.after.map_or(Ok(()), |after| duration::check("after", after))?;
        match (self.on, self.failures) {
            (Trigger::FailuresInARow, None | Some(0 | 1 | 1001..)) => {
                Err(Invalid::new("failures", "is not between 2 and 1000")
                    .remedy("say how many failures in a row; on: failure tells of each"))
            }
            (Trigger::AllWell, _) => match self.every {
                Some(every) if every <= SignedDuration::from_hours(24) => at_least_seconds("every", every),
                _ => Err(Invalid::new("every", "is not between 5s and 24h")
                    .remedy("say how often the switch is to be told that all is well, such as 1m")),
            },
            _ => Ok(()),
        }
    }

    fn check_scope(&self) -> Result<(), Invalid> {
        let Scope { schedule, label, queue } = &self.scope;
        for (field, text) in [("scope.label", label), ("scope.queue", queue)] {
            if let Some(text) = text {
                name::check(text).map_err(|error| Invalid { field: field.to_owned(), ..error })?;
            }
        }
        let nowhere = matches!(self.on, Trigger::NodeLost | Trigger::ClockJumped);
        let of_schedules = schedule.is_some() || label.is_some();
        if (nowhere && !self.scope.is_all()) || (self.on == Trigger::QueueTooOld && of_schedules) {
            return Err(Invalid::new("scope", format!("leaves nothing for a rule on {}", self.on))
                .remedy("leave it out, or name a queue where queues are looked at"));
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), Invalid> {
        if self.steps.is_empty() || self.steps.len() > STEPS_MAX {
            return Err(
                Invalid::new("steps", format!("are not 1 to {STEPS_MAX}")).remedy("say which channels are told")
            );
        }
        if self.steps.len() > 1 && matches!(self.on, Trigger::Recovery | Trigger::AllWell) {
            return Err(Invalid::new("steps", format!("of a rule on {} are one", self.on)).remedy("use one step"));
        }
        let mut latest = SignedDuration::ZERO;
        for (index, step) in self.steps.iter().enumerate() {
            let at = format!("steps.{index}");
            let channels: BTreeSet<_> = step.channels.iter().collect();
            if channels.is_empty() || channels.len() > STEP_CHANNELS_MAX || channels.len() < step.channels.len() {
                return Err(Invalid::new(
                    format!("{at}.channels"),
                    format!("are not 1 to {STEP_CHANNELS_MAX} different ones"),
                )
                .remedy("name each channel once"));
            }
            let first = index == 0;
            match (first, step.after, step.failures) {
                (true, None, None) => {}
                (true, _, _) => {
                    return Err(Invalid::new(at, "is the first, which has no after and no failures")
                        .remedy("set the rule's wait, or on: failures_in_a_row"));
                }
                (false, None, None) => {
                    return Err(Invalid::new(at, "does not say when it is told").remedy("add after, such as 15m"));
                }
                (false, Some(after), _) if after < latest => {
                    return Err(Invalid::new(format!("{at}.after"), "is earlier than the step before")
                        .remedy("write the steps in order of time"));
                }
                (false, after, _) => {
                    after.map_or(Ok(()), |after| duration::check(&format!("{at}.after"), after))?;
                    latest = after.unwrap_or(latest);
                }
            }
        }
        Ok(())
    }
}

fn at_least_a_minute(field: &str, given: SignedDuration) -> Result<(), Invalid> {
    duration::check(field, given)?;
    if given < SignedDuration::from_mins(1) {
        return Err(Invalid::new(field, "is shorter than a minute").remedy("use 1m or more"));
    }
    Ok(())
}

fn at_least_seconds(field: &str, given: SignedDuration) -> Result<(), Invalid> {
    if given < SignedDuration::from_secs(5) {
        return Err(Invalid::new(field, "is shorter than 5s").remedy("use 5s or more"));
    }
    Ok(())
}

/// A rule as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What the user says.
    pub definition: RuleDefinition,
    /// Rises with every edit.
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<RuleDefinition, String> {
        let rule: RuleDefinition = serde_json::from_str(text).map_err(|error| error.to_string())?;
        rule.validate().map_err(|refused| refused.to_string())?;
        Ok(rule)
    }

    #[test]
    fn n02_a_rule_needs_little_and_reads_back_as_it_was_written() {
        let rule = parsed(r#"{"name":"all failures","on":"failure","steps":[{"channels":["ops"]}]}"#).expect("a rule");
        assert_eq!((rule.wait, rule.group_by, rule.enabled), (usual_wait(), GroupBy::Cause, true));
        assert!(rule.tells_recovery() && rule.scope.is_all());
        let long = parsed(
            r#"{"name":"x","on":"failures_in_a_row","failures":3,"scope":{"label":"team=ops"},"wait":"1s",
                "steps":[{"channels":["a"]},{"channels":["b","c"],"after":"15m"},{"channels":["d"],"failures":9}],
                "quiet":{"from":"22:00","until":"07:00"},"repeat_every":"4h","group_by":"subject"}"#,
        )
        .expect("a rule");
        let written = serde_json::to_string(&long).expect("it can be written");
        assert_eq!(parsed(&written), Ok(long));
    }

    #[test]
    fn n02_rules_that_could_not_have_been_meant_are_refused() {
        for (rest, part) in [
            (r#""on":"failure","steps":[]"#, "steps"),
            (r#""on":"failure","steps":[{"channels":[]}]"#, "steps.0.channels"),
            (r#""on":"failure","steps":[{"channels":["a","a"]}]"#, "steps.0.channels"),
            (r#""on":"failure","steps":[{"channels":["a"]},{"channels":["b"]}]"#, "steps.1"),
            (r#""on":"failure","steps":[{"channels":["a"],"after":"5m"}]"#, "steps.0"),
            (r#""on":"failure","after":"5m","steps":[{"channels":["a"]}]"#, "after"),
            (r#""on":"failures_in_a_row","steps":[{"channels":["a"]}]"#, "failures"),
            (r#""on":"failures_in_a_row","failures":1,"steps":[{"channels":["a"]}]"#, "failures"),
            (r#""on":"all_well","steps":[{"channels":["a"]}]"#, "every"),
            (r#""on":"all_well","every":"1s","steps":[{"channels":["a"]}]"#, "every"),
            (r#""on":"node_lost","scope":{"queue":"q"},"steps":[{"channels":["a"]}]"#, "scope"),
            (r#""on":"queue_too_old","scope":{"label":"l"},"steps":[{"channels":["a"]}]"#, "scope"),
            (
                r#""on":"failure","steps":[{"channels":["a"]},{"channels":["b"],"after":"9m"},{"channels":["c"],"after":"5m"}]"#,
                "steps.2.after",
            ),
            (r#""on":"failure","wait":"2d","steps":[{"channels":["a"]}]"#, "wait"),
            (r#""on":"lunch","steps":[{"channels":["a"]}]"#, "lunch"),
            (r#""on":"failure","when":"now","steps":[{"channels":["a"]}]"#, "unknown field"),
        ] {
            let refused = parsed(&format!(r#"{{"name":"x",{rest}}}"#)).expect_err(rest);
            assert!(refused.contains(part), "{rest}: {refused}");
        }
    }
}
