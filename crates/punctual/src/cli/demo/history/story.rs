//! What went wrong, what somebody did about it, and what is still open when the demo begins.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use punctual_core::access::{Change, Described};
use punctual_core::execute::{StopReason, stopped};
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::schedule::{ByHand, Schedule, ScheduleDefinition};
use punctual_core::store::{Cancelled, Store, StoreError, StoreResult};
use punctual_engine::offers::settle_offers_once;

use super::super::cast::{OVERDUE, PAUSED, PAUSED_QUEUE, uptime_check};
use super::super::dice::Dice;
use super::super::script::World;
use super::super::traffic::Visit;
use super::{Happening, NOTICED_AFTER, Past};

/// The numbers of the jobs that the story itself makes.
const NUMBERS: i64 = 5_000_000;

/// A turn of the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A schedule is paused for an afternoon.
    PauseShortly,
    Resume,
    /// The node that has most to do dies.
    NodeDies,
    NoticeDead,
    NodesReturn,
    /// Somebody asks for a report, and then does not want it any more.
    AskForReport,
    CancelReport,
    /// One night's backup is put off.
    PutOffBackup,
    /// Everything is without power for a morning.
    PowerCut,
    /// A schedule is edited.
    EditPrices,
    /// A schedule is paused, and stays so.
    PauseForGood,
    /// A queue is paused, and stays so.
    PauseQueue,
    /// What waits in it, one of them cancelled before it began.
    FillQueue,
    /// The only node that offers a target leaves.
    ExporterLeaves,
    /// Somebody asks for it all the same.
    AskForExport,
    /// Mails for later.
    PlanAhead,
    AddUptimeCheck,
}

/// The story, in no order.
pub(super) fn turns(world: &World) -> Vec<(Timestamp, Turn)> {
    let on_day = |day: i64, hour: i64, minute: i64| {
        world.origin + SignedDuration::from_hours(day * 24 + hour) + SignedDuration::from_mins(minute)
    };
    let ago = |hours: i64, minutes: i64| {
        world.present - SignedDuration::from_hours(hours) - SignedDuration::from_mins(minutes)
    };
    vec![
        (on_day(1, 14, 10), Turn::PauseShortly),
        (on_day(1, 16, 45), Turn::Resume),
        // The search index is being built then.
        (on_day(2, 4, 3), Turn::NodeDies),
        (on_day(2, 4, 3) + NOTICED_AFTER, Turn::NoticeDead),
        (on_day(2, 4, 28), Turn::NodesReturn),
        (on_day(2, 9, 12), Turn::AskForReport),
        (on_day(2, 9, 12) + SignedDuration::from_secs(4), Turn::CancelReport),
        (on_day(3, 20, 5), Turn::PutOffBackup),
        (on_day(4, 10, 21), Turn::PowerCut),
        (on_day(4, 12, 52), Turn::NodesReturn),
        (on_day(4, 12, 52) + NOTICED_AFTER, Turn::NoticeDead),
        (on_day(5, 11, 2), Turn::EditPrices),
        (ago(53, 0), Turn::PauseForGood),
        (ago(26, 10), Turn::PauseQueue),
        (ago(9, 20), Turn::ExporterLeaves),
        (ago(8, 50), Turn::AskForExport),
        (ago(5, 0), Turn::FillQueue),
        (ago(1, 30), Turn::PlanAhead),
        (ago(0, 3), Turn::AddUptimeCheck),
    ]
}

impl Past<'_> {
    /// Takes one turn; says how many jobs there may be to claim afterwards.
    pub(super) async fn take_turn(&mut self, turn: Turn) -> StoreResult<usize> {
        match turn {
            Turn::PauseShortly => self.pause("the index is rebuilt").await?,
            Turn::Resume => self.resume().await?,
            Turn::NodeDies => self.node_dies().await?,
            Turn::NoticeDead => return self.recover().await,
            Turn::NodesReturn => self.nodes_return().await?,
            Turn::AskForReport => return self.ask_for_report().await,
            Turn::CancelReport => self.cancel_report().await?,
            Turn::PutOffBackup => self.put_off_backup().await?,
            Turn::PowerCut => self.power_cut().await?,
            Turn::EditPrices => self.edit_prices().await?,
            Turn::PauseForGood => self.pause("removes too much since 4.12, see OPS-1423").await?,
            Turn::PauseQueue => self.pause_queue().await?,
            Turn::FillQueue => self.fill_queue().await?,
            Turn::ExporterLeaves => self.exporter_leaves().await?,
            Turn::AskForExport => self.ask_for_export().await?,
            Turn::PlanAhead => self.plan_ahead().await?,
            Turn::AddUptimeCheck => self.create(uptime_check()?).await?,
        }
        self.look_for_due().await?;
        Ok(0)
    }

    fn schedule(&self, name: &str) -> StoreResult<&Schedule> {
        let missing = || StoreError::NotFound { what: "schedule", key: name.to_owned() };
        self.schedules.get(name).ok_or_else(missing)
    }

    /// The store in somebody's name, so that the audit log tells who did it.
    fn by(&self, who: &str, action: &'static str, subject: String) -> Arc<dyn Store> {
        self.store.recorded(Change {
            actor: who.to_owned(),
            token_id: None,
            action: Some(action),
            request_id: None,
            before: None,
            once: None,
            describe: Arc::new(move |_| Described { subject: subject.clone(), ..Described::default() }),
        })
    }

    async fn pause(&self, note: &str) -> StoreResult<()> {
        let id = self.schedule(PAUSED)?.id;
        let store = self.by("maria", "schedule.pause", format!("schedule:{id}"));
        store.pause_schedule(id, Some("maria".to_owned()), Some(note.to_owned())).await?;
        Ok(())
    }

    async fn resume(&self) -> StoreResult<()> {
        let id = self.schedule(PAUSED)?.id;
        self.by("maria", "schedule.resume", format!("schedule:{id}")).resume_schedule(id).await?;
        Ok(())
    }

    async fn pause_queue(&self) -> StoreResult<()> {
        let store = self.by("maria", "queue.pause", format!("queue:{PAUSED_QUEUE}"));
        store.set_queue_paused(PAUSED_QUEUE, true).await
    }

    async fn node_dies(&mut self) -> StoreResult<()> {
        let busiest = (0..self.nodes.len()).max_by_key(|number| self.nodes.get(*number).map(|it| it.running.len()));
        self.lose_node(busiest.unwrap_or(0)).await
    }

    async fn nodes_return(&mut self) -> StoreResult<()> {
        for number in 0..self.nodes.len() {
            if self.nodes.get(number).is_some_and(|node| node.lease.is_none()) {
                self.start_node(number).await?;
            }
        }
        settle_offers_once(self.store).await?;
        Ok(())
    }

    async fn power_cut(&mut self) -> StoreResult<()> {
        for number in 0..self.nodes.len() {
            self.lose_node(number).await?;
        }
        Ok(())
    }

    /// The jobs that the story makes, told apart by the turn they belong to.
    fn visit_of(&self, turn: i64) -> Visit {
        Visit { dice: Dice::new(self.world.seed, "story", turn), n: NUMBERS + turn * 1000 }
    }

    async fn ask_for_report(&self) -> StoreResult<usize> {
        let report = NewJob { trigger_detail: Some("jonas".to_owned()), ..self.visit_of(1).report()? };
        Ok(self.store.enqueue_jobs(vec![report]).await?.len())
    }

    /// Cancels the report while it runs: the node learns of it with its next heartbeat, and stops.
    async fn cancel_report(&mut self) -> StoreResult<()> {
        let is_report =
            |happening: &Happening| matches!(happening, Happening::End(end) if end.script.artifact.is_some());
        let Some(key) = self.agenda.iter().find(|(_, it)| is_report(it)).map(|(key, _)| *key) else { return Ok(()) };
        let Some(Happening::End(end)) = self.agenda.remove(&key) else { return Ok(()) };
        let cancelled = self.by("jonas", "job.cancel", format!("job:{}", end.job)).cancel_job(end.job).await?;
        debug_assert_eq!(cancelled, Cancelled::Requested);
        let report = stopped(end.job, StopReason::Cancelled);
        let stops_at = key.0.min(punctual_core::store::Clock::now(self.clock) + SignedDuration::from_millis(870));
        self.plan(stops_at, Happening::End(Box::new(end.stopped(report))));
        Ok(())
    }

    async fn put_off_backup(&self) -> StoreResult<()> {
        let id = self.schedule("nightly-backup")?.id;
        let later = self.world.origin + SignedDuration::from_hours(4 * 24 + 4);
        self.by("maria", "schedule.reschedule", format!("schedule:{id}")).reschedule(id, later).await?;
        Ok(())
    }

    async fn edit_prices(&self) -> StoreResult<()> {
        let schedule = self.schedule("price-feed")?;
        let (id, definition) = (schedule.id, schedule.definition.clone());
        let definition =
            ScheduleDefinition { description: "Exchange rates, now with the yen".to_owned(), ..definition };
        let store = self.by("maria", "schedule.update", format!("schedule:{id}"));
        store.update_schedule_if_version(id, schedule.version, definition).await?;
        Ok(())
    }

    async fn fill_queue(&self) -> StoreResult<()> {
        let mut visit = self.visit_of(2);
        let jobs = (0..40).map(|_| visit.bulk_mail()).collect::<StoreResult<Vec<_>>>()?;
        let ids = self.store.enqueue_jobs(jobs).await?;
        if let Some(id) = ids.get(17) {
            self.by("maria", "job.cancel", format!("job:{id}")).cancel_job(*id).await?;
        }
        Ok(())
    }

    async fn exporter_leaves(&mut self) -> StoreResult<()> {
        self.leave(2).await?;
        settle_offers_once(self.store).await?;
        Ok(())
    }

    async fn ask_for_export(&self) -> StoreResult<()> {
        let id = self.schedule(OVERDUE)?.id;
        let store = self.by("jonas", "schedule.trigger", format!("schedule:{id}"));
        let _waits: JobId =
            store.trigger_schedule(id, ByHand { by: Some("jonas".to_owned()), ..ByHand::default() }).await?;
        Ok(())
    }

    async fn plan_ahead(&self) -> StoreResult<()> {
        let mut visit = self.visit_of(3);
        let at = |hours| Some(self.world.present + SignedDuration::from_hours(hours));
        let jobs = (2..7).map(|hours| Ok(NewJob { run_at: at(hours), ..visit.mail()? }));
        let jobs = jobs.collect::<StoreResult<Vec<_>>>()?;
        self.store.enqueue_jobs(jobs).await?;
        Ok(())
    }
}
