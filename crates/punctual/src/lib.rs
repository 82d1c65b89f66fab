//! Punctual for programs that embed it: open a store, register tasks, declare schedules, enqueue jobs, run a node.
//!
//! ```
//! # punctual::testing::block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("app.db").display());
//! use punctual::{Context, Punctual};
//!
//! #[derive(Default, serde::Serialize, serde::Deserialize)]
//! struct Digest { user: u64 }
//!
//! let punctual = Punctual::open(&url).await?;                  // "sqlite:app.db" or "postgres://…"
//! punctual.task("email_digest", |_ctx: Context, input: Digest| async move { Ok(input.user) });
//! punctual.schedule("digest").cron("@hourly")?.task("email_digest").input(&Digest::default())?.save().await?;
//! punctual.enqueue("email_digest", &Digest { user: 7 }).job_key("user:7").send().await?;
//! let shutdown = async { /* a signal, for example */ };
//! punctual.run_until(shutdown).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! | feature | is for |
//! | --- | --- |
//! | `sqlite`, `postgres` | the stores; both are on unless the defaults are off |
//! | `rusqlite`, `tokio-postgres`, `sqlx-postgres` | [`Enqueue::send_in`] a transaction of the program's own |
//! | `calls` | [`Builder::run_calls`]: a node that runs HTTP and SQL jobs |
//! | `otel` | the module `otlp`: spans of runs for an OpenTelemetry receiver |
//! | `testing` | the module `testing`: a clock that tests turn by hand |
//! | `worker` | the binary of a service that only works: `punctual worker` |
//! | `cli` | the whole binary; a program that embeds Punctual turns the defaults off and does without |

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
compile_error!("punctual needs a store: turn the feature `sqlite` or `postgres` on");

mod address;
mod app;
#[cfg(feature = "calls")]
pub mod calls;
mod enqueue;
mod error;
mod flows;
mod handle;
mod join;
mod limits;
#[cfg(feature = "otel")]
pub mod otlp;
mod reserve;
mod schedules;
#[cfg(feature = "testing")]
pub mod testing;

pub use address::{migrate, open};
pub use app::{Builder, Punctual};
pub use enqueue::{Batch, Enqueue};
pub use error::{Error, Result};
pub use flows::Flow;
pub use handle::JobHandle;
pub use join::Join;
pub use limits::LimitBuilder;
pub use reserve::{HeldQueue, Reserve};
pub use schedules::{Others, ScheduleBuilder};

pub use jiff::{SignedDuration, Timestamp};
pub use punctual_core::cron::Dst;
pub use punctual_core::execute::StopReason;
pub use punctual_core::flow::{FlowRun, FlowStep, OnFailure};
pub use punctual_core::id::{JobId, ScheduleId};
pub use punctual_core::invalid::Invalid;
pub use punctual_core::job::{Job, JobState, JobView, Run, Whereabouts};
pub use punctual_core::job_key::JobKeyMode;
pub use punctual_core::limits::{Limit, LimitRow, LimitSubject, Rate};
pub use punctual_core::meter::Meter;
pub use punctual_core::retry::{Backoff, RetryPolicy, SerialOnFailure};
pub use punctual_core::run::{ErrorCode, Outcome, Trigger};
pub use punctual_core::schedule::{Missed, Overlap, Schedule};
pub use punctual_core::slot::{Decision, Reason, SlotRow};
pub use punctual_core::store::{Cancelled, Store, StoreError};
pub use punctual_core::target::Target;
pub use punctual_core::trace::{Span, TraceContext, Tracer};
pub use punctual_core::unique::Unique;
pub use punctual_engine::node::NodeEvent;
pub use punctual_engine::targets::task::{Context, TaskError};
