//! The parts of the store port that a node uses seldom or never: records of runs, and what only the server asks for.

use super::{ProxyStore, Said, answer};
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::backfill::{Advanced, Backfill, BackfillPreview, Backfills, NewBackfill};
use punctual_core::chain::Chains;
use punctual_core::checks::{Checks, Finding};
use punctual_core::id::{BackfillId, JobId, ScheduleId};
use punctual_core::job::{Artifact, JobView};
use punctual_core::json::Json;
use punctual_core::offers::{Offers, OffersSettled};
use punctual_core::records::{LogChunk, LogLine, Progress, RunRecords};
use punctual_core::store::{Changes, Lease, Store, StoreResult};
use punctual_core::upkeep::{Declarations, Declared, FiredFromMemory, Plans, Upkeep};
use std::sync::Arc;

#[async_trait]
impl Checks for ProxyStore {
    async fn run_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        self.ask("run_checks", move |store| async move { store.run_checks(limit).await }).await
    }

    async fn run_quick_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        self.ask("run_quick_checks", move |store| async move { store.run_quick_checks(limit).await }).await
    }
}

#[async_trait]
impl Chains for ProxyStore {
    async fn chain_end(&self, id: JobId) -> StoreResult<Option<JobView>> {
        self.ask("chain_end", move |store| async move { store.chain_end(id).await }).await
    }

    fn ends(&self) -> Box<dyn Changes> {
        self.changes()
    }
}

#[async_trait]
impl Backfills for ProxyStore {
    async fn preview_backfill(&self, asked: &NewBackfill) -> StoreResult<BackfillPreview> {
        let asked = asked.clone();
        self.ask("preview_backfill", move |store| async move { store.preview_backfill(&asked).await }).await
    }

    async fn create_backfill(&self, asked: NewBackfill) -> StoreResult<Backfill> {
        self.ask("create_backfill", move |store| async move { store.create_backfill(asked).await }).await
    }

    async fn backfill(&self, id: BackfillId) -> StoreResult<Option<Backfill>> {
        self.ask("backfill", move |store| async move { store.backfill(id).await }).await
    }

    async fn backfills(
        &self, schedule: Option<ScheduleId>, before: Option<BackfillId>, limit: usize,
    ) -> StoreResult<Vec<Backfill>> {
        self.ask("backfills", move |store| async move { store.backfills(schedule, before, limit).await }).await
    }

    async fn cancel_backfill(&self, id: BackfillId) -> StoreResult<Backfill> {
        self.ask("cancel_backfill", move |store| async move { store.cancel_backfill(id).await }).await
    }

    async fn backfilled(&self, schedule: ScheduleId, slot_at: Timestamp) -> StoreResult<Vec<JobId>> {
        self.ask("backfilled", move |store| async move { store.backfilled(schedule, slot_at).await }).await
    }

    async fn advance_backfills(&self) -> StoreResult<Advanced> {
        self.ask("advance_backfills", move |store| async move { store.advance_backfills().await }).await
    }
}

#[async_trait]
impl Offers for ProxyStore {
    async fn settle_offers(&self, limit: usize) -> StoreResult<OffersSettled> {
        let settle = move |store: Arc<dyn Store>, tell| -> super::Doing {
            Box::pin(async move {
                let result = store.settle_offers(limit).await;
                (Said::Offers(result.clone()), answer(tell, result))
            })
        };
        self.send("settle_offers", settle).await
    }
}

#[async_trait]
impl RunRecords for ProxyStore {
    async fn append_log_if_leased(&self, lease: Lease, chunks: Vec<LogChunk>) -> StoreResult<Vec<bool>> {
        let append = move |store: Arc<dyn Store>| async move { store.append_log_if_leased(lease, chunks).await };
        self.ask("append_log_if_leased", append).await
    }

    async fn run_log(&self, job: JobId, after: u64, limit: usize) -> StoreResult<Vec<LogLine>> {
        self.ask("run_log", move |store| async move { store.run_log(job, after, limit).await }).await
    }

    async fn run_progress(&self, job: JobId) -> StoreResult<Option<(Timestamp, Progress)>> {
        self.ask("run_progress", move |store| async move { store.run_progress(job).await }).await
    }

    async fn keep_artifact_if_leased(
        &self, lease: Lease, job: JobId, name: &str, contents: Vec<u8>,
    ) -> StoreResult<Artifact> {
        let name = name.to_owned();
        let keep = move |store: Arc<dyn Store>| async move {
            store.keep_artifact_if_leased(lease, job, &name, contents).await
        };
        self.ask("keep_artifact_if_leased", keep).await
    }

    async fn artifact_contents(&self, job: JobId, number: u64) -> StoreResult<Option<Vec<u8>>> {
        self.ask("artifact_contents", move |store| async move { store.artifact_contents(job, number).await }).await
    }

    async fn remember_step_if_leased(&self, lease: Lease, job: JobId, step: &str, value: Json) -> StoreResult<Json> {
        let step = step.to_owned();
        let remember =
            move |store: Arc<dyn Store>| async move { store.remember_step_if_leased(lease, job, &step, value).await };
        self.ask("remember_step_if_leased", remember).await
    }

    async fn remembered_step(&self, root_job: JobId, step: &str) -> StoreResult<Option<Json>> {
        let step = step.to_owned();
        self.ask("remembered_step", move |store| async move { store.remembered_step(root_job, &step).await }).await
    }
}

/// Verbs that only the server asks for, and those of notification, of which whole nights are told without nodes. No
/// simulated node asks for them; one that did would hear of it.
macro_rules! not_for_nodes {
    ($port:ident { $($others:item)* } $(async fn $verb:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)*) => {
        const _: () = {
            use crate::verbs::words::*;

            #[async_trait]
            impl $port for ProxyStore {
                $($others)*
                $( async fn $verb(&self $(, $arg: $type)*) -> StoreResult<$answer> {
                    $( let _unasked = $arg; )*
                    Err(StoreError::Internal(concat!("no node asks for ", stringify!($verb)).to_owned()))
                } )*
            }
        };
    };
}

not_for_nodes! {
    Upkeep {
        fn plan_changes(&self) -> Box<dyn Changes> {
            self.changes()
        }

        async fn declare_schedules(&self, declarations: Declarations) -> StoreResult<Declared> {
            self.ask("declare_schedules", move |store| async move { store.declare_schedules(declarations).await }).await
        }

        async fn schedules_to_remember(
            &self, within: SignedDuration, limit: usize, declared: &[ScheduleId],
        ) -> StoreResult<Vec<Schedule>> {
            let declared = declared.to_vec();
            let remember = move |store: Arc<dyn Store>, tell| -> super::Doing {
                Box::pin(async move {
                    let result = store.schedules_to_remember(within, limit, &declared).await;
                    (Said::Remember(result.clone()), answer(tell, result))
                })
            };
            self.send("schedules_to_remember", remember).await
        }

        async fn fire_remembered(
            &self, node: Option<NodeId>, schedules: Vec<Schedule>, plans: Plans,
        ) -> StoreResult<FiredFromMemory> {
            let fire = move |store: Arc<dyn Store>, tell| -> super::Doing {
                Box::pin(async move {
                    let result = store.fire_remembered(node, schedules.clone(), plans).await;
                    (Said::FireRemembered(schedules, result.clone()), answer(tell, result))
                })
            };
            self.send("fire_remembered", fire).await
        }
    }
}

crate::with_verbs!(Readings, not_for_nodes {});

crate::with_verbs!(Control, not_for_nodes {
    async fn advance_bulks(&self) -> StoreResult<BulkStep> {
        self.ask("advance_bulks", move |store| async move { store.advance_bulks().await }).await
    }
});

crate::with_verbs!(Flows, not_for_nodes {
    async fn advance_flows(&self, limit: usize) -> StoreResult<FlowsAdvanced> {
        self.ask("advance_flows", move |store| async move { store.advance_flows(limit).await }).await
    }
});

crate::with_verbs!(Limits, not_for_nodes {});

crate::with_verbs!(Manifests, not_for_nodes {});

crate::with_verbs!(Policies, not_for_nodes {});

crate::with_verbs!(Notifications, not_for_nodes {});

crate::with_verbs!(Access, not_for_nodes {
    fn recorded(&self, change: Change) -> Arc<dyn Store> {
        let _unasked = change;
        Arc::new(Self { letters: Arc::clone(&self.letters), bell: Arc::clone(&self.bell) })
    }
});

crate::with_verbs!(Freezing, not_for_nodes {});

crate::with_verbs!(Grants, not_for_nodes {
    async fn grant(&self, id: GrantId) -> StoreResult<Option<Grant>> {
        self.ask("grant", move |store| async move { store.grant(id).await }).await
    }
});

crate::with_verbs!(Executions, not_for_nodes {});
