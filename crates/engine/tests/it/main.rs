//! The engine's passes and loops, on a real store with a clock that is turned by hand.

mod ahead;
mod command;
mod courier;
mod desk;
mod faulty;
mod figures;
mod fire;
mod frozen;
mod grants;
mod http;
mod memory;
mod node;
mod offers;
mod reports;
mod retain;
mod strays;
mod task;

use jiff::{SignedDuration, Timestamp};
use punctual_core::name::Name;
use punctual_core::schedule::{Missed, Schedule, ScheduleDefinition};
use punctual_core::store::{Clock, Store};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::{Arc, Mutex};

/// A clock that stands still until it is turned.
#[derive(Debug)]
struct HandClock(Mutex<Timestamp>);

impl HandClock {
    fn pass(&self, time: SignedDuration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// A store in a folder of its own.
struct World {
    store: SqliteStore,
    clock: Arc<HandClock>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(HandClock(Mutex::new("2026-03-01T00:00:00Z".parse().unwrap())));
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let store = SqliteStore::open(&folder.path().join("engine.db"), options).unwrap();
        Self { store, clock, _folder: folder }
    }

    async fn minutely(&self, name: &str, missed: Missed) -> Schedule {
        let timing = TimingSpec::cron("* * * * *", "UTC");
        let definition = ScheduleDefinition::new(Name::new(name).unwrap(), timing, Target::command(["true"]));
        self.store.create_schedule(ScheduleDefinition { missed, ..definition }).await.unwrap()
    }
}
mod watch;
