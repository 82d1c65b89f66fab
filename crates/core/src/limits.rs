//! Limits: how many jobs run at once and how many start in a while, for everything, a queue, a job type or a tag (C14).
//!
//! What runs is counted where it stands, in `running`, and never kept beside it, so that no crash can leave a limit
//! half used for ever. A rate is a bucket of tokens in whole numbers: nothing is rounded, so nothing adds up.

use crate::duration;
use crate::invalid::Invalid;
use crate::name;
use crate::store::{ClaimedJob, StoreResult};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::fmt;
use std::str::FromStr;

/// The largest number in a limit; more than any installation runs at once.
pub const LIMIT_MAX: u32 = 1_000_000;

/// The longest time that a rate may speak of.
const PER_MAX: SignedDuration = SignedDuration::from_hours(24 * 31);

/// What a limit counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitSubject {
    /// Every job.
    All,
    /// The jobs of one queue.
    Queue(String),
    /// The jobs of one type, such as `command` or `task:email`.
    Type(String),
    /// The jobs that carry a tag.
    Tag(String),
}

impl LimitSubject {
    /// The words of the closed set, as they are stored.
    pub const SCOPES: [&'static str; 4] = ["all", "queue", "type", "tag"];

    /// What kind of thing is counted.
    pub fn scope(&self) -> &'static str {
        Self::SCOPES[match self {
            Self::All => 0,
            Self::Queue(_) => 1,
            Self::Type(_) => 2,
            Self::Tag(_) => 3,
        }]
    }

    /// Which one; nothing where there is only one.
    pub fn name(&self) -> &str {
        match self {
            Self::All => "",
            Self::Queue(name) | Self::Type(name) | Self::Tag(name) => name,
        }
    }

    /// Puts together again what a store keeps apart.
    pub fn of(scope: &str, name: &str) -> Result<Self, Invalid> {
        match scope {
            "all" if name.is_empty() => Ok(Self::All),
            "queue" => Ok(Self::Queue(name.to_owned())),
            "type" => Ok(Self::Type(name.to_owned())),
            "tag" => Ok(Self::Tag(name.to_owned())),
            _ => Err(unknown_subject(&format!("{scope}:{name}"))),
        }
    }

    /// Whether it counts the jobs of a lane: those of one queue and one type that carry the same limited tags.
    pub fn covers(&self, queue: &str, job_type: &str, tags: &[String]) -> bool {
        match self {
            Self::All => true,
            Self::Queue(name) => name == queue,
            Self::Type(name) => name == job_type,
            Self::Tag(name) => tags.contains(name),
        }
    }
}

fn unknown_subject(text: &str) -> Invalid {
    Invalid::new("subject", format!("{text:?} says nothing that can be limited"))
        .remedy("write all, queue:NAME, type:NAME or tag:NAME")
}

impl fmt::Display for LimitSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            other => write!(f, "{}:{}", other.scope(), other.name()),
        }
    }
}

impl FromStr for LimitSubject {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let subject = match text.split_once(':') {
            None if text == "all" => Self::All,
            Some((scope, name)) if scope != "all" => Self::of(scope, name)?,
            _ => return Err(unknown_subject(text)),
        };
        if subject != Self::All {
            name::check(subject.name()).map_err(|e| Invalid { field: "subject".into(), ..e })?;
        }
        Ok(subject)
    }
}

/// How many jobs start in a while: a bucket that holds `burst` tokens, gets `jobs` of them evenly in every `per`, and
/// gives one for each start. So in any time `t` no more than `burst + jobs * t / per` start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// So many.
    pub jobs: u32,
    /// In such a time.
    pub per: SignedDuration,
    /// So many at once after a quiet time.
    pub burst: u32,
}

/// What is in a bucket: as much as refills in so many microseconds at one token each, times the time for one. In this
/// unit a job costs `per` in microseconds and every microsecond brings `jobs`, both whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// How much.
    pub level: i64,
    /// At this instant.
    pub at: Timestamp,
}

impl Rate {
    /// What one start costs.
    pub fn cost(self) -> i64 {
        i64::try_from(self.per.as_micros()).unwrap_or(i64::MAX)
    }

    /// What a full bucket holds.
    fn full(self) -> i64 {
        self.cost().saturating_mul(self.burst.into())
    }

    /// A full bucket.
    pub fn bucket(self, now: Timestamp) -> Bucket {
        Bucket { level: self.full(), at: now }
    }

    /// What is in the bucket now. A clock that was turned back brings nothing.
    pub fn refilled(self, bucket: Bucket, now: Timestamp) -> Bucket {
        let at = bucket.at.max(now);
        let gained = i128::from(self.jobs) * at.duration_since(bucket.at).as_micros();
        let level = (i128::from(bucket.level) + gained).min(self.full().into());
        Bucket { level: i64::try_from(level).unwrap_or(i64::MAX), at }
    }

    /// How many may start.
    pub fn tokens(self, bucket: Bucket) -> u32 {
        u32::try_from(bucket.level.max(0) / self.cost().max(1)).unwrap_or(u32::MAX)
    }

    /// How long until one more may start, counted from the bucket's instant.
    pub fn next_token_in(self, bucket: Bucket) -> SignedDuration {
        let missing = self.cost() - bucket.level.rem_euclid(self.cost().max(1));
        SignedDuration::from_micros(
            missing.div_euclid(self.jobs.into()) + i64::from(missing % i64::from(self.jobs) > 0),
        )
    }

    /// The bucket when the rate is changed: as many tokens as there were, as far as they fit.
    pub fn inherited(self, old: Self, bucket: Bucket) -> Bucket {
        Bucket { level: i64::from(old.tokens(bucket).min(self.burst)).saturating_mul(self.cost()), at: bucket.at }
    }

    /// Refuses what makes no sense.
    pub fn validate(self) -> Result<(), Invalid> {
        in_range("rate.jobs", self.jobs, 1)?;
        in_range("rate.burst", self.burst, 1)?;
        duration::check("rate.per", self.per)?;
        if self.per > PER_MAX {
            return Err(Invalid::new("rate.per", "is longer than 31 days").remedy("give the rate for a shorter time"));
        }
        Ok(())
    }
}

fn in_range(field: &str, number: u32, least: u32) -> Result<(), Invalid> {
    if (least..=LIMIT_MAX).contains(&number) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("{number} is out of range"))
        .remedy(format!("use a number from {least} to {LIMIT_MAX}")))
}

/// What may not be exceeded. At least one of the three bounds is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What is counted.
    pub subject: LimitSubject,
    /// So many at once, on all nodes together; 0 lets none start.
    pub concurrency: Option<u32>,
    /// So many at once on each node; 0 lets none start.
    pub node_concurrency: Option<u32>,
    /// So many starts in a while, on all nodes together.
    pub rate: Option<Rate>,
}

impl Limit {
    /// A limit that bounds nothing yet.
    pub fn on(subject: LimitSubject) -> Self {
        Self { subject, concurrency: None, node_concurrency: None, rate: None }
    }

    /// Whether none of the three bounds is given.
    pub fn bounds_nothing(&self) -> bool {
        self.concurrency.is_none() && self.node_concurrency.is_none() && self.rate.is_none()
    }

    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), Invalid> {
        // A subject may have been put together by hand.
        self.subject.to_string().parse::<LimitSubject>()?;
        if self.bounds_nothing() {
            return Err(Invalid::new("limit", "bounds nothing")
                .remedy("give concurrency, node_concurrency or rate, or remove the limit"));
        }
        self.concurrency.map_or(Ok(()), |number| in_range("concurrency", number, 0))?;
        self.node_concurrency.map_or(Ok(()), |number| in_range("node_concurrency", number, 0))?;
        self.rate.map_or(Ok(()), Rate::validate)
    }

    /// What is in its bucket when it is set: what was left, or all of it.
    pub fn first_bucket(&self, left: Option<(Rate, Bucket)>, now: Timestamp) -> Option<Bucket> {
        let rate = self.rate?;
        Some(left.map_or_else(|| rate.bucket(now), |(was, bucket)| rate.inherited(was, bucket)))
    }

    /// How many more may start, of what runs now and what is in its bucket.
    pub fn room(&self, use_now: Use, bucket: Option<Bucket>) -> u32 {
        let left = |bound: Option<u32>, used: u32| bound.map(|bound| bound.saturating_sub(used));
        let tokens = self.rate.zip(bucket).map(|(rate, bucket)| rate.tokens(bucket));
        let bounds = [left(self.concurrency, use_now.everywhere), left(self.node_concurrency, use_now.here), tokens];
        bounds.into_iter().flatten().min().unwrap_or(u32::MAX)
    }
}

/// How many jobs of a limit run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// On all nodes.
    pub everywhere: u32,
    /// On the node that asks.
    pub here: u32,
}

/// A limit as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRow {
    /// What it says.
    pub limit: Limit,
    /// How many of its jobs run.
    pub running: u64,
    /// How many may start at once as far as the rate goes.
    pub tokens: Option<u32>,
    /// Since when there is one.
    pub created_at: Timestamp,
    /// Since when it says this.
    pub updated_at: Timestamp,
}

/// What a claim brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claimed {
    /// The jobs, in queue order.
    pub jobs: Vec<ClaimedJob>,
    /// When a rate keeps back jobs that wait: how long until the next one may start. Nobody else will tell of it.
    pub more_in: Option<SignedDuration>,
}

impl From<Vec<ClaimedJob>> for Claimed {
    fn from(jobs: Vec<ClaimedJob>) -> Self {
        Self { jobs, more_in: None }
    }
}

impl std::ops::Deref for Claimed {
    type Target = [ClaimedJob];

    fn deref(&self) -> &[ClaimedJob] {
        &self.jobs
    }
}

impl IntoIterator for Claimed {
    type Item = ClaimedJob;
    type IntoIter = std::vec::IntoIter<ClaimedJob>;

    fn into_iter(self) -> Self::IntoIter {
        self.jobs.into_iter()
    }
}

/// Limits in the store. They hold exactly, however many nodes claim at once.
#[async_trait]
pub trait Limits: Send + Sync {
    /// Sets what a limit says; it counts what runs already and what waits already. Refused: what bounds nothing.
    async fn set_limit(&self, limit: Limit) -> StoreResult<LimitRow>;

    /// Removes a limit. Refused: where there is none.
    async fn remove_limit(&self, subject: &LimitSubject) -> StoreResult<()>;

    /// One limit.
    async fn limit(&self, subject: &LimitSubject) -> StoreResult<Option<LimitRow>>;

    /// The limits after a subject, in order of scope and name.
    async fn limits(&self, after: Option<&LimitSubject>, limit: usize) -> StoreResult<Vec<LimitRow>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn c14_a_subject_is_read_as_it_is_written() {
        for text in ["all", "queue:default", "type:task:email", "tag:gpu", "tag:tenant:7"] {
            assert_eq!(text.parse::<LimitSubject>().unwrap().to_string(), text);
        }
        for text in ["", "al", "all:", "all:x", "queue", "queue:", "node:x", "tag:a\0b", "tag:\n"] {
            let refused = text.parse::<LimitSubject>().unwrap_err();
            assert_eq!(refused.field, "subject", "{text:?}");
        }
    }

    #[test]
    fn c14_a_limit_that_makes_no_sense_is_refused_with_a_remedy() {
        let limit = || Limit::on(LimitSubject::All);
        let rate = Rate { jobs: 1, per: SignedDuration::from_secs(1), burst: 1 };
        let refused = |limit: Limit| limit.validate().unwrap_err();
        assert_eq!(refused(limit()).field, "limit");
        assert_eq!(refused(Limit { concurrency: Some(LIMIT_MAX + 1), ..limit() }).field, "concurrency");
        for (wrong, field) in [
            (Rate { jobs: 0, ..rate }, "rate.jobs"),
            (Rate { burst: 0, ..rate }, "rate.burst"),
            (Rate { per: SignedDuration::ZERO, ..rate }, "rate.per"),
            (Rate { per: SignedDuration::from_hours(24 * 32), ..rate }, "rate.per"),
        ] {
            let refused = refused(Limit { rate: Some(wrong), ..limit() });
            assert_eq!(refused.field, field);
            assert!(refused.remedy.is_some() || field == "rate.per");
        }
        Limit { concurrency: Some(0), ..limit() }.validate().unwrap();
    }

    proptest! {
        /// Whoever takes every token as soon as it is there gets exactly what the rate says, and never more in any
        /// window.
        #[test]
        fn c14_a_bucket_gives_exactly_its_rate(
            jobs in 1u32..50, per_ms in 1i64..5_000, burst in 1u32..20, steps in prop::collection::vec(0i64..400_000, 1..80)
        ) {
            let rate = Rate { jobs, per: SignedDuration::from_millis(per_ms), burst };
            let start = Timestamp::from_second(1_000_000).unwrap();
            let mut bucket = rate.bucket(start);
            let (mut now, mut starts) = (start, Vec::new());
            for step in steps {
                now += SignedDuration::from_micros(step);
                bucket = rate.refilled(bucket, now);
                let tokens = rate.tokens(bucket);
                bucket.level -= i64::from(tokens) * rate.cost();
                starts.extend(std::iter::repeat_n(now, tokens as usize));
                let waits = rate.next_token_in(bucket);
                let before = rate.refilled(bucket, now + waits - SignedDuration::from_micros(1));
                prop_assert_eq!(rate.tokens(before), 0, "not a microsecond too early");
                prop_assert_eq!(rate.tokens(rate.refilled(bucket, now + waits)).min(1), 1, "and then it is there");
            }
            for (first, from) in starts.iter().enumerate() {
                for (last, until) in starts.iter().enumerate().skip(first) {
                    let allowed = i128::from(burst) * i128::from(rate.cost())
                        + i128::from(jobs) * until.duration_since(*from).as_micros();
                    let taken = (last - first + 1) as i128 * i128::from(rate.cost());
                    prop_assert!(taken <= allowed);
                }
            }
        }

        #[test]
        fn c14_a_clock_that_goes_back_brings_no_tokens(back in 1i64..1_000_000) {
            let rate = Rate { jobs: 10, per: SignedDuration::from_secs(1), burst: 10 };
            let now = Timestamp::from_second(1_000_000).unwrap();
            let empty = Bucket { level: 0, at: now };
            let earlier = rate.refilled(empty, now - SignedDuration::from_micros(back));
            prop_assert_eq!(earlier, empty);
        }
    }
}
