//! The schedules that the demo shows: one for each thing worth seeing.

use jiff::SignedDuration;
use punctual_core::job::Timeout;
use punctual_core::name::Name;
use punctual_core::retry::{Backoff, RetryPolicy};
use punctual_core::schedule::{Missed, Overlap, Schedule, ScheduleDefinition};
use punctual_core::store::{Store, StoreResult};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;

/// A schedule of the demo and what it is there to show.
pub(super) struct Role {
    pub(super) schedule: Schedule,
    pub(super) shows: &'static str,
}

/// Makes the schedules; all of them run real commands.
pub(super) async fn assemble(store: &dyn Store) -> StoreResult<Vec<Role>> {
    let mut roles = Vec::new();
    for (shows, definition) in definitions()? {
        let mut schedule = store.create_schedule(definition).await?;
        if schedule.definition.name.as_str() == "paused" {
            let note = Some("paused from the start, to show that nothing fires".to_owned());
            schedule = store.pause_schedule(schedule.id, Some("demo".to_owned()), note).await?;
        }
        roles.push(Role { schedule, shows });
    }
    Ok(roles)
}

fn definitions() -> StoreResult<Vec<(&'static str, ScheduleDefinition)>> {
    let retried = RetryPolicy {
        max_attempts: 3,
        backoff: Backoff::Fixed,
        base: SignedDuration::from_millis(300),
        ..RetryPolicy::default()
    };
    // Fails the first time and completes when it is tried again.
    let fails_once = ["sh", "-c", "test \"$PUNCTUAL_ATTEMPT\" -gt 1 || exit 3"];
    Ok(vec![
        ("an interval", define("heartbeat", "@every 2s", &["true"])?),
        ("cron with seconds", define("greeting", "*/5 * * * * *", &["echo", "hello"])?),
        ("fails, then is retried", ScheduleDefinition { retry: retried, ..define("flaky", "@every 2s", &fails_once)? }),
        (
            "serial: one at a time",
            ScheduleDefinition { serial: true, ..define("in-order", "@every 1s", &["sleep", "0.2"])? },
        ),
        (
            "overlap = forbid",
            ScheduleDefinition { overlap: Overlap::Forbid, ..define("too-slow", "@every 1s", &["sleep", "1.5"])? },
        ),
        (
            "missed = skip",
            ScheduleDefinition { missed: Missed::SKIP, ..define("on-time-only", "*/3 * * * * *", &["true"])? },
        ),
        ("does not fire", define("paused", "@every 1s", &["true"])?),
    ])
}

fn define(name: &str, when: &str, argv: &[&str]) -> StoreResult<ScheduleDefinition> {
    let timing = TimingSpec::cron(when, "UTC");
    let target = Target::command(argv.iter().copied());
    let timeout = Timeout::After(SignedDuration::from_secs(30));
    Ok(ScheduleDefinition { timeout, ..ScheduleDefinition::new(Name::new(name)?, timing, target) })
}
