//! Traces: where a run stands among what others do, by the rules of W3C Trace Context; and the port for whoever keeps
//! spans.
//!
//! A run's place follows from its job alone: the trace is that of whoever asked for the job, or one of its own that all
//! attempts of the chain share, and the span is made of the job's id. So everybody who knows the job knows the span, a
//! crash changes nothing, and what is passed on is the same whether somebody keeps spans or not.

use crate::id::JobId;
use crate::job::Job;
use jiff::Timestamp;

/// The most of an error that a span carries; the whole stands in the run.
const WORDS_MAX_CHARS: usize = 300;

/// The id of a span; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl SpanId {
    /// The span of a job's run: the half of its id that is chance.
    pub fn of_run(job: JobId) -> Self {
        Self(job.0.as_u64_pair().1.max(1))
    }

    /// A span from chance.
    pub fn from_random(bits: u64) -> Self {
        Self(bits.max(1))
    }
}

impl std::fmt::Display for SpanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The id of a trace; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// The trace of a chain of jobs that nobody asked for within another one.
    pub fn of_chain(root: JobId) -> Self {
        Self(root.0.as_u128().max(1))
    }

    /// A trace from chance.
    pub fn from_random(bits: u128) -> Self {
        Self(bits.max(1))
    }
}

impl std::fmt::Display for TraceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A place in a trace, as it travels: `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// Which trace.
    pub trace_id: TraceId,
    /// Which span of it.
    pub span_id: SpanId,
    /// Whether somebody is to keep it.
    pub sampled: bool,
}

impl TraceContext {
    /// Where a job's run stands.
    pub fn of_run(job: &Job) -> Self {
        let span_id = SpanId::of_run(job.id);
        match Self::asked_by(job) {
            Some(asker) => Self { span_id, ..asker },
            None => Self { trace_id: TraceId::of_chain(job.root_job_id), span_id, sampled: true },
        }
    }

    /// Where whoever asked for a job stands, if that was said, and said well.
    pub fn asked_by(job: &Job) -> Option<Self> {
        job.spec.trace_context.as_deref().and_then(|text| text.parse().ok())
    }
}

impl std::fmt::Display for TraceContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// Why a text is no place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct NotATrace;

impl std::str::FromStr for TraceContext {
    type Err = NotATrace;

    /// Reads version 00, and of later versions what they begin with, as the recommendation says.
    fn from_str(text: &str) -> Result<Self, NotATrace> {
        let mut parts = text.split('-');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits).ok_or(NotATrace)?;
            let lower = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            if lower { Ok(part) } else { Err(NotATrace) }
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let more = parts.next().is_some();
        if version == "ff" || (version == "00" && more) {
            return Err(NotATrace);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| NotATrace)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| NotATrace)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATrace)?;
        if trace == 0 || span == 0 {
            return Err(NotATrace);
        }
        Ok(Self { trace_id: TraceId(trace), span_id: SpanId(span), sampled: flags & 1 == 1 })
    }
}

/// What a span is to those before and behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// It makes work for later.
    Producer,
    /// It does work that was made earlier.
    Consumer,
}

/// What is said of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<String> for SpanValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A piece of work that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// What it was: few names, such as `run http`.
    pub name: String,
    /// What it is to others.
    pub kind: SpanKind,
    /// Where it stands.
    pub context: TraceContext,
    /// The span it is part of.
    pub parent: Option<SpanId>,
    /// A span of the same trace that it follows: the attempt before it.
    pub follows: Option<SpanId>,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What is said of it.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl Span {
    /// The span of a job's run, before its end is known.
    pub fn of_run(job: &Job, began_at: Timestamp) -> Self {
        let mut attributes: Vec<(&'static str, SpanValue)> = vec![
            ("punctual.job.id", job.id.to_string().into()),
            ("punctual.job.root_id", job.root_job_id.to_string().into()),
            ("punctual.job.attempt", SpanValue::Number(i64::from(job.attempt))),
            ("punctual.job.kind", job.spec.target.kind().into()),
            ("punctual.job.type", job.spec.target.job_type().into()),
            ("punctual.job.trigger", job.spec.trigger.as_str().into()),
            ("punctual.queue", job.spec.queue.clone().into()),
        ];
        attributes.extend(job.schedule_id.map(|id| ("punctual.schedule.id", id.to_string().into())));
        attributes.extend(job.slot_at.map(|at| ("punctual.slot_at", at.to_string().into())));
        Self {
            name: format!("run {}", job.spec.target.kind()),
            kind: SpanKind::Consumer,
            context: TraceContext::of_run(job),
            parent: TraceContext::asked_by(job).map(|asker| asker.span_id),
            follows: job.retry_of.map(SpanId::of_run),
            began_at,
            ended_at: began_at,
            attributes,
            error: None,
        }
    }

    /// The same, failed for a reason.
    #[must_use]
    pub fn failed(self, why: &str) -> Self {
        Self { error: Some(why.chars().take(WORDS_MAX_CHARS).collect()), ..self }
    }
}

/// Keeps spans, or hands them on. No call waits for anything, and none may fail.
pub trait Tracer: std::fmt::Debug + Send + Sync {
    /// Whether it is worth making any.
    fn is_on(&self) -> bool;

    /// A span has ended.
    fn ended(&self, span: Span);
}

/// Nobody keeps spans.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTracer;

impl Tracer for NoTracer {
    fn is_on(&self) -> bool {
        false
    }

    fn ended(&self, _span: Span) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NewJob;
    use crate::target::Target;
    use proptest::prelude::*;
    use uuid::Uuid;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn job(id: u128, root: u128, trace_context: Option<&str>) -> Job {
        let trace_context = trace_context.map(str::to_owned);
        Job {
            id: JobId(Uuid::from_u128(id)),
            created_at: Timestamp::UNIX_EPOCH,
            spec: NewJob { trace_context, ..NewJob::new(Target::task("t")) },
            schedule_id: None,
            slot_at: None,
            retry_of: (id != root).then_some(JobId(Uuid::from_u128(root))),
            root_job_id: JobId(Uuid::from_u128(root)),
            chain_began_at: Timestamp::UNIX_EPOCH,
            attempt: 1,
            failures: 0,
            interruptions: 0,
        }
    }

    #[test]
    fn d12_a_run_is_a_span_of_its_own_in_the_trace_of_whoever_asked() {
        let (first, second) = (job(7, 7, Some(GIVEN)), job(8, 7, Some(GIVEN)));
        let (one, two) = (Span::of_run(&first, Timestamp::UNIX_EPOCH), Span::of_run(&second, Timestamp::UNIX_EPOCH));
        let asker: TraceContext = GIVEN.parse().unwrap();
        for span in [&one, &two] {
            assert_eq!((span.context.trace_id, span.parent), (asker.trace_id, Some(asker.span_id)));
            assert!(span.context.sampled);
        }
        assert_ne!(one.context.span_id, two.context.span_id);
        assert_eq!((one.follows, two.follows), (None, Some(one.context.span_id)));
    }

    #[test]
    fn d12_attempts_of_a_job_that_nobody_traced_share_a_trace() {
        for bad in [None, Some("00-trace-01"), Some("")] {
            let (first, second) = (job(7, 7, bad), job(8, 7, bad));
            let (one, two) = (TraceContext::of_run(&first), TraceContext::of_run(&second));
            assert_eq!(one.trace_id, two.trace_id);
            assert_ne!(one.span_id, two.span_id);
            assert_eq!(Span::of_run(&first, Timestamp::UNIX_EPOCH).parent, None);
        }
    }

    #[test]
    fn d12_what_is_no_trace_context_is_refused() {
        let zeros = |digits| "0".repeat(digits);
        for bad in [
            String::new(),
            "00".to_owned(),
            GIVEN.to_uppercase(),
            format!("{GIVEN}-01"),
            format!("{GIVEN}0"),
            format!("ff{}", &GIVEN[2..]),
            format!(" {GIVEN}"),
            format!("00-{}-00f067aa0ba902b7-01", zeros(32)),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", zeros(16)),
            GIVEN.replace('f', "g"),
            GIVEN.replace('-', "_"),
            GIVEN.replacen("4b", "+b", 1),
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(NotATrace), "{bad:?}");
        }
        // A version that comes later may say more, and is understood as far as it is known.
        let later = format!("cc{}-more", &GIVEN[2..]);
        assert_eq!(later.parse::<TraceContext>(), GIVEN.parse());
        assert!(!GIVEN.replace("-01", "-00").parse::<TraceContext>().unwrap().sampled);
        assert!(GIVEN.replace("-01", "-03").parse::<TraceContext>().unwrap().sampled);
    }

    proptest! {
        #[test]
        fn d12_whatever_is_stored_what_is_passed_on_is_a_trace_context(
            id in any::<u128>(), root in any::<u128>(), stored in proptest::option::of("\\PC{0,64}"),
        ) {
            let context = TraceContext::of_run(&job(id, root, stored.as_deref()));
            prop_assert_eq!(context.to_string().parse::<TraceContext>(), Ok(context));
            prop_assert_eq!(context.to_string().len(), 55);
        }

        #[test]
        fn d12_a_trace_context_is_passed_on_with_its_trace_and_its_flag(
            trace in 1..=u128::MAX, span in 1..=u64::MAX, flags in any::<u8>(), id in any::<u128>(),
        ) {
            let given = format!("00-{trace:032x}-{span:016x}-{flags:02x}");
            let run = TraceContext::of_run(&job(id, id, Some(&given)));
            let begin = format!("00-{trace:032x}-");
            let end = format!("-{:02x}", flags & 1);
            prop_assert!(run.to_string().starts_with(&begin) && run.to_string().ends_with(&end));
            prop_assert_eq!(Span::of_run(&job(id, id, Some(&given)), Timestamp::UNIX_EPOCH).parent, Some(SpanId(span)));
        }

        #[test]
        fn d12_no_text_makes_the_reader_fail(text in "\\PC*") {
            let read = text.parse::<TraceContext>();
            prop_assert!(read.is_err() || text.len() >= 55);
        }
    }
}
