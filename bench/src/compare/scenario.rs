//! What a contestant is asked to do, and how long each of its answers may take.

use serde_json::{Value, json};
use std::time::Duration;

/// Jobs that are enqueued in one call where they come in batches.
pub const BATCH: usize = 1000;
/// What somebody may take who is slow, or has much to make before he is ready.
const USUAL: Duration = Duration::from_mins(2);
/// The longest pause between two probes, and a probe on top of it that is slow.
const PROBE: Duration = Duration::from_millis(200);
/// Schedules are due at the first full minute that is far enough away: in this time and a minute at the latest.
const UNTIL_THE_MINUTE: Duration = Duration::from_secs(15 + 60);
/// So many schedules are made in a second, which delays the minute.
const SCHEDULES_PER_SECOND: usize = 5_000;
/// How long a contestant waits for the last start after the minute.
const AFTER_THE_MINUTE: Duration = Duration::from_mins(2);

/// One scenario of `bench/peers/README.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scenario {
    Drain {
        jobs: usize,
    },
    Enqueue {
        /// `single`, or `batch`.
        mode: &'static str,
        callers: usize,
        jobs: usize,
    },
    Latency {
        probes: usize,
        background_per_second: usize,
    },
    Sustained {
        seconds: usize,
    },
    /// The same for finding out what somebody manages with the settings that are played for latency.
    SustainedForLatency {
        seconds: usize,
    },
    /// The same at a steady pace, whether or not somebody works.
    Paced {
        seconds: usize,
        per_second: f64,
    },
    Slots {
        schedules: usize,
    },
}

impl Scenario {
    /// As the protocol calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drain { .. } => "drain",
            Self::Enqueue { .. } => "enqueue",
            Self::Latency { .. } => "latency",
            Self::Sustained { .. } | Self::SustainedForLatency { .. } | Self::Paced { .. } => "sustained",
            Self::Slots { .. } => "slots",
        }
    }

    /// What is asked, without who is asked and where.
    pub fn request(self) -> Value {
        let mut request = match self {
            Self::Drain { jobs } => json!({ "jobs": jobs }),
            Self::Enqueue { mode, callers, jobs } => {
                json!({ "mode": mode, "callers": callers, "jobs": jobs, "batch": BATCH })
            }
            Self::Latency { probes, background_per_second } => {
                json!({ "probes": probes, "background_per_second": background_per_second })
            }
            Self::Sustained { seconds } => json!({ "seconds": seconds }),
            Self::SustainedForLatency { seconds } => json!({ "seconds": seconds, "about": "latency" }),
            Self::Paced { seconds, per_second } => {
                json!({ "seconds": seconds, "per_second": per_second, "window": usize::MAX / 2 })
            }
            Self::Slots { schedules } => json!({ "schedules": schedules, "batch": 500 }),
        };
        request["scenario"] = json!(self.name());
        request
    }

    /// How long an answer may take: what the scenario lasts by itself, and what somebody slow takes beside.
    pub fn patience(self) -> Duration {
        let lasts = match self {
            Self::Drain { .. } | Self::Enqueue { .. } => Duration::ZERO,
            Self::Latency { probes, .. } => PROBE * small(probes),
            Self::Sustained { seconds } | Self::SustainedForLatency { seconds } | Self::Paced { seconds, .. } => {
                Duration::from_secs(1) * small(seconds)
            }
            Self::Slots { schedules } => {
                let made = Duration::from_secs(1) * small(schedules / SCHEDULES_PER_SECOND);
                made + UNTIL_THE_MINUTE + AFTER_THE_MINUTE
            }
        };
        USUAL + lasts
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_longer_than_what_the_scenario_lasts() {
        let seconds = |scenario: Scenario| scenario.patience().as_secs();
        assert_eq!(seconds(Scenario::Drain { jobs: 800_000 }), 120);
        assert_eq!(seconds(Scenario::Sustained { seconds: 60 }), 180);
        assert_eq!(seconds(Scenario::Latency { probes: 300, background_per_second: 0 }), 180);
        // The minute of so many is up to 95 s away, and two minutes later a contestant gives up by itself.
        assert!(seconds(Scenario::Slots { schedules: 100_000 }) > 95 + 120 + 60);
    }

    #[test]
    fn a_trial_says_what_it_is_about() {
        let request = Scenario::SustainedForLatency { seconds: 3 }.request();
        assert_eq!(request, json!({ "scenario": "sustained", "seconds": 3, "about": "latency" }));
        assert_eq!(Scenario::Sustained { seconds: 3 }.request().get("about"), None);
    }
}
