//! The store port, continued: calendars, pauses that end by themselves, and the cap on fires.

use crate::calendar::{CalendarRules, StoredCalendar};
use crate::id::ScheduleId;
use crate::invalid::Invalid;
use crate::name::{self, Name};
use crate::schedule::{Pause, Schedule};
use crate::store::StoreResult;
use async_trait::async_trait;
use jiff::Timestamp;

/// Refuses what could not be kept of who pauses and why.
pub fn check_pause(by: Option<&str>, note: Option<&str>) -> Result<(), Invalid> {
    name::check_text("by", by.unwrap_or_default())?;
    name::check_text("note", note.unwrap_or_default())
}

impl Pause {
    /// Refuses an end that is not ahead.
    pub fn check_until(until: Timestamp, now: Timestamp) -> Result<(), Invalid> {
        if until > now {
            return Ok(());
        }
        Err(Invalid::new("until", format!("{until} has passed"))
            .remedy("choose a time that lies ahead, or leave it out to pause until somebody resumes it"))
    }
}

/// The part of the store that keeps what several schedules share, and what holds for all of them.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Stores a calendar. Refused: names taken, rules that could not have been meant.
    async fn create_calendar(
        &self, name: Name, description: String, rules: CalendarRules,
    ) -> StoreResult<StoredCalendar>;

    /// Replaces what a calendar says, if nobody else did meanwhile. It holds for the slots that are decided from now
    /// on, and fires nothing by itself.
    async fn update_calendar_if_version(
        &self, name: &str, version: i64, description: String, rules: CalendarRules,
    ) -> StoreResult<StoredCalendar>;

    /// Ends a calendar. Refused while a schedule names it.
    async fn delete_calendar(&self, name: &str) -> StoreResult<()>;

    /// One calendar by name.
    async fn calendar(&self, name: &str) -> StoreResult<Option<StoredCalendar>>;

    /// Calendars in order of name.
    async fn calendars(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredCalendar>>;

    /// Stops firing until an instant of the store's clock; whoever fires then lets it go on. Of a schedule that is
    /// paused already only the end of its pause is changed. Refused: an instant that is not ahead.
    async fn pause_schedule_until(
        &self, id: ScheduleId, until: Timestamp, by: Option<String>, note: Option<String>,
    ) -> StoreResult<Schedule>;

    /// Sets the next slot of a schedule aside, that one and no other, as skipped (rescheduled), and plans the one behind
    /// it. Twice skips two. Refused: paused schedules, and those without a next slot.
    async fn skip_next(&self, id: ScheduleId, by: Option<String>) -> StoreResult<Schedule>;

    /// The most slots that fire in any second, across all nodes; no limit when absent (D10).
    async fn fire_cap(&self) -> StoreResult<Option<u32>>;

    /// Sets or lifts that limit. Slots beyond it wait, and are fired late; those of schedules with `burst_allowed` do
    /// neither wait nor count.
    async fn set_fire_cap(&self, per_second: Option<u32>) -> StoreResult<Option<u32>>;

    /// Since when the slot ledger is kept: what was decided about earlier slots may be forgotten.
    async fn slots_kept_since(&self) -> StoreResult<Timestamp>;
}
