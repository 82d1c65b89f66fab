//! Wake-ups: within the process by a channel, from other nodes by NOTIFY; an optimisation only.

use crate::Shared;
use crate::client::{self, Notifications};
use crate::error::with_causes;
use crate::params::{Params, params, time};
use crate::session::Step;
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::id::ScheduleId;
use punctual_core::schedule::Schedule;
use punctual_core::store::Changes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::Client;
use uuid::Uuid;

/// How long a listener waits before it connects again.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a listener waits for the notification that it sends to itself.
const HEARS_WITHIN: Duration = Duration::from_secs(5);

/// What a notification says that tells of work alone: whoever looks after plans need not look. The statements that make
/// or free most of the work say it themselves; everything else is told without a word, and concerns all.
const OF_WORK: &str = "work";

/// Whom a verb that has something for others tells of it. Nobody is told what he does not wait for: a notification
/// costs a lock of the whole database at the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// There may be work: the nodes are told if one has begun to wait for some since they were told last.
    Work,
    /// A schedule is due at another time: the nodes are told if there are any and nothing else is due by then, because
    /// they sleep until what they know of.
    Plan(ScheduleId, Timestamp),
    /// Plans have changed: the nodes are told if there are any.
    Plans,
    /// Other nodes were told by the statement that made the work.
    Told,
}

impl Wake {
    /// What a schedule's new plan means to others.
    pub(crate) fn of(schedule: &Schedule) -> Self {
        // One that is not due in the store, paused or fired from memory, may be what another node remembers.
        schedule.state.next_run_at.map_or(Self::Plans, |due| Self::Plan(schedule.id, due))
    }

    /// Whether something may be due earlier than before, so that whoever fires should look again.
    pub(crate) fn is_of_plans(self) -> bool {
        matches!(self, Self::Plan(..) | Self::Plans)
    }

    /// The statement that tells other nodes; it goes with the COMMIT.
    pub(crate) fn step(self) -> Option<Step<'static>> {
        Some(match self {
            Self::Work => Step::Rows(
                "SELECT CASE WHEN setval('punctual_internal.told', last_value) > 0 THEN pg_notify('punctual_wake', '') END
                 FROM punctual_internal.waits WHERE last_value > (SELECT last_value FROM punctual_internal.told)",
                Params::default(),
            ),
            Self::Plan(id, due) => Step::Rows(
                "SELECT pg_notify('punctual_wake', '')
                 WHERE EXISTS (SELECT 1 FROM punctual_internal.leases)
                   AND NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_state
                                   WHERE enabled AND next_run_at IS NOT NULL AND next_run_at <= $1
                                     AND schedule_id <> $2)",
                params![time(due), id.0],
            ),
            Self::Plans => Step::Rows(
                "SELECT pg_notify('punctual_wake', '') WHERE EXISTS (SELECT 1 FROM punctual_internal.leases)",
                Params::default(),
            ),
            Self::Told => return None,
        })
    }
}

/// What rings when there may be new work or a new plan.
pub(crate) struct Wakes(pub(crate) watch::Receiver<()>);

#[async_trait]
impl Changes for Wakes {
    async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is closed: nothing will ever change again.
            std::future::pending::<()>().await;
        }
    }
}

/// Listens for other nodes from the first time that somebody waits until the store is gone. Whoever waits looks again
/// by himself, so that a listener that hears nothing costs time and nothing else.
pub(crate) fn listen(shared: &Arc<Shared>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    shared.listener.get_or_init(|| {
        let store = Arc::downgrade(shared);
        let listener = runtime.spawn(async move {
            loop {
                match listen_once(&store).await {
                    Ok(Heard::Nothing) => {
                        tracing::warn!(
                            "notifications do not come through, perhaps because of a pooler: polling instead; \
                             `direct_url` names the database itself"
                        );
                        return;
                    }
                    Ok(Heard::TheEnd) => return,
                    Err(error) => tracing::warn!(%error, "failed to listen for wake-ups; polling meanwhile"),
                }
                tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
            }
        });
        listener.abort_handle()
    });
}

/// Why a listener stopped.
enum Heard {
    /// Nothing, not even what it said to itself.
    Nothing,
    /// The store is gone.
    TheEnd,
}

/// Listens until the connection breaks, which is the error.
async fn listen_once(store: &Weak<Shared>) -> Result<Heard, String> {
    let words = |error: tokio_postgres::Error| with_causes(&error);
    let Some(shared) = store.upgrade() else { return Ok(Heard::TheEnd) };
    let (client, mut notifications) = client::connect(&shared.direct).await.map_err(String::from)?;
    if !hears(&shared, &client, &mut notifications).await? {
        return Ok(Heard::Nothing);
    }
    client.batch_execute("UNLISTEN *; LISTEN punctual_wake").await.map_err(words)?;
    // What was told before this was told to nobody.
    shared.ring_all();
    drop(shared);
    while let Some(told) = notifications.recv().await {
        match store.upgrade() {
            Some(shared) if told.payload() == OF_WORK => shared.ring(),
            Some(shared) => shared.ring_all(),
            None => return Ok(Heard::TheEnd),
        }
    }
    Err("the connection was closed".to_owned())
}

/// Whether notifications come through. A pooler in transaction mode takes LISTEN and forgets who said it.
///
/// Sent by another connection: in answer to the listening one a pooler may bring back by chance what it would lose at
/// any other time.
async fn hears(shared: &Shared, client: &Client, notifications: &mut Notifications) -> Result<bool, String> {
    let probe = format!("punctual_probe_{}", Uuid::new_v4().simple());
    client.batch_execute(&format!("LISTEN {probe}")).await.map_err(|error| with_causes(&error))?;
    let session = shared.session().await.map_err(|error| error.to_string())?;
    let told = session.rows("SELECT pg_notify($1, '')", &params![probe.as_str()]).await;
    told.map_err(|error| with_causes(&error))?;
    drop(session);
    let heard = async { while notifications.recv().await.is_some_and(|told| told.channel() != probe) {} };
    Ok(tokio::time::timeout(HEARS_WITHIN, heard).await.is_ok())
}
