//! Firing what most batches are, in one statement: schedules with one due slot each, and one job for it.

use crate::error::Work;
use crate::firing::{Decided, SlotMaking};
use crate::making::trimmed;
use crate::params::{params, time};
use crate::rows::{self, value};
use crate::session::{Answer, Step};
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::firing::{DecidedSlot, Next};
use punctual_core::id::NodeId;
use punctual_core::run::Trigger;
use punctual_core::schedule::Schedule;
use punctual_core::timing::TimingSpec;

/// A schedule whose only due slot fires.
#[derive(Debug)]
pub(crate) struct Single<'a> {
    schedule: &'a Schedule,
    slot: &'a DecidedSlot,
    job: &'a SlotMaking,
    /// The next slot and when it is due; nothing when there are no more.
    next: Option<(Timestamp, Timestamp)>,
}

impl<'a> Single<'a> {
    fn of(decided: &'a Decided, now: Timestamp) -> Option<Self> {
        let Decided { schedule, firing, jobs } = decided;
        let ([slot], [job]) = (firing.slots.as_slice(), jobs.as_slice()) else { return None };
        let next = match &firing.next {
            Next::Slot(next) => Some((next.slot_at, next.run_at)),
            Next::Exhausted => None,
            Next::Problem(_) => return None,
        };
        let is_new = schedule.state.fired_through.is_none_or(|through| slot.slot_at > through);
        let is_plain = is_new && slot.slot_at <= now && schedule.state.is_fired_by_store() && !job.job.serial;
        is_plain.then_some(Self { schedule, slot, job, next })
    }
}

impl Tx<'_> {
    /// A batch that consists of nothing else.
    pub(crate) fn singles<'a>(&self, batch: &'a [Decided]) -> Option<Vec<Single<'a>>> {
        batch.iter().map(|decided| Single::of(decided, self.now)).collect()
    }

    /// Writes such a batch in one round trip, behind a savepoint named `batch`; false as `write_batch` says.
    pub(crate) async fn write_singles(&self, singles: &[Single<'_>], node: Option<NodeId>) -> Work<bool> {
        let is_cron = |it: &Single<'_>| matches!(it.schedule.definition.timing, TimingSpec::Cron { .. });
        let params = params![
            self.at(),
            node.map(|id| id.0),
            singles.iter().map(|it| it.schedule.id.0).collect::<Vec<_>>(),
            singles.iter().map(|it| it.schedule.version).collect::<Vec<_>>(),
            singles.iter().map(|it| time(it.slot.slot_at)).collect::<Vec<_>>(),
            singles.iter().map(|it| it.job.id.0).collect::<Vec<_>>(),
            singles.iter().map(|it| it.slot.late_ms).collect::<Vec<_>>(),
            trimmed(singles.iter().map(|it| it.next.map(|(slot_at, _)| time(slot_at)))),
            trimmed(singles.iter().map(|it| it.next.map(|(_, run_at)| time(run_at)))),
            trimmed(singles.iter().map(|it| it.next.is_none().then(|| self.at()))),
            trimmed(singles.iter().map(|it| (it.job.job.trigger == Trigger::Catchup).then_some(true))),
            trimmed(singles.iter().map(|it| (!is_cron(it)).then(|| it.schedule.definition.timing.text()))),
        ];
        let steps = [Step::Word("SAVEPOINT batch"), Step::Rows(sql::fire_slots, params)];
        let answer = self.pipeline(&steps).await?.pop().map(Answer::rows).unwrap_or_default();
        let planned: Option<i64> = rows::collect(&answer, value)?.pop();
        Ok(planned.is_some_and(|planned| usize::try_from(planned) == Ok(singles.len())))
    }
}
