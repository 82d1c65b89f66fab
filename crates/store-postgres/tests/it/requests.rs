//! What SQL asks of schedules: the same as the API does, in the order in which it was asked.

use crate::harness::{Own, migrations};
use crate::roles::install;
use punctual_core::checks::Checks;
use punctual_core::policies::Policies;
use punctual_core::schedule::{Schedule, ScheduleDefinition};
use punctual_core::slot::SlotRow;
use punctual_core::store::{ScheduleKey, Store};
use punctual_core::target::{Sql, Target};
use punctual_core::timing::TimingSpec;
use punctual_core::transfer::{Move, MoveStage, Transfer};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::Database;
use punctual_testkit::prelude::*;
use std::time::SystemTime;
use tokio_postgres::Client;

/// The first of each month: far enough from any moment at which a test may run.
const MONTHLY: &str = "0 3 1 * *";

/// A store that goes by the database's own clock, which is the one that SQL has.
struct Twins {
    own: Own,
    client: Client,
}

impl Twins {
    async fn new() -> Self {
        let own = Own::with(|options| options.clock = None).await;
        let client = own.database.connect().await;
        Self { own, client }
    }

    async fn sql(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {:?}", error.as_db_error()));
    }

    async fn schedule(&self, name: &str) -> Schedule {
        let key = ScheduleKey::Name(name.to_owned());
        self.own.store.schedule(&key).await.unwrap().unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// One by the API and one by SQL, alike.
    async fn made(&self) -> (Schedule, Schedule) {
        let definition = ScheduleDefinition::new(
            named("api"),
            TimingSpec::cron(MONTHLY, "UTC"),
            Target::Sql(Sql::function("main", "f")),
        );
        self.own.store.create_schedule(definition).await.unwrap();
        self.sql(&format!(
            "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('sql', 'f', '{MONTHLY}')"
        ))
        .await;
        self.settled().await;
        (self.schedule("api").await, self.schedule("sql").await)
    }

    /// Both were made long ago, and nobody fired them since.
    async fn overdue(&self) {
        self.sql(
            "UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 year';
             UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '3 months',
               next_run_at = next_run_at - interval '3 months'",
        )
        .await;
    }

    /// Lets a node carry out what is asked; the slots of both fire as they are due.
    async fn settled(&self) {
        let fired = self.own.store.fire_due(None, 100).await.unwrap();
        assert_eq!(fired.replanned, 0, "what was asked for is no alarm");
        let left = "SELECT (SELECT count(*) FROM punctual_internal.schedule_requests)
                         + (SELECT count(*) FROM punctual_internal.schedule_state WHERE asked_since IS NOT NULL)";
        assert_eq!(self.own.number(left).await, 0, "something that was asked is left");
    }

    async fn ledger(&self, schedule: &Schedule) -> Vec<SlotRow> {
        self.own.store.slots(schedule.id, None, 100).await.unwrap()
    }

    /// Both stand where the other one stands, with the same ledger.
    async fn alike(&self, what: &str) -> (Schedule, Schedule) {
        let (api, sql) = (self.schedule("api").await, self.schedule("sql").await);
        let stand = |it: &Schedule| {
            let t = it.state.clone();
            let last = t.last_job_id.is_some();
            (t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.fired_through, t.problem, last, it.version)
        };
        assert_eq!(stand(&api), stand(&sql), "{what}");
        let told = |rows: Vec<SlotRow>| -> Vec<_> {
            let row = |it: &SlotRow| (it.slot_at, it.through, it.count, it.decision, it.reason, it.schedule_version);
            rows.iter().map(row).collect()
        };
        assert_eq!(told(self.ledger(&api).await), told(self.ledger(&sql).await), "{what}");
        (api, sql)
    }

    /// What a query says, as text.
    async fn text(&self, sql: &str) -> String {
        let row = self.client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        row.get::<_, Option<String>>(0).unwrap_or_default()
    }
}

#[test]
fn b01_what_sql_asks_for_is_what_the_api_does() {
    block_on(async {
        let twins = Twins::new().await;
        let store = &twins.own.store;
        let (api, sql) = twins.made().await;
        assert_eq!(api.state.next_slot_at, sql.state.next_slot_at);
        assert_eq!((sql.definition.source.as_str(), sql.definition.owner.as_deref()), ("sql", Some("postgres")));
        twins.alike("made").await;

        let same_times = ScheduleDefinition { description: "x".into(), ..api.definition.clone() };
        store.update_schedule_if_version(api.id, api.version, same_times.clone()).await.unwrap();
        twins.sql("UPDATE punctual.scheduled_jobs SET description = 'x' WHERE name = 'sql'").await;
        assert_eq!(twins.schedule("sql").await.state.next_run_at, sql.state.next_run_at, "nothing is planned anew");
        twins.alike("an edit that leaves the times alone").await;

        // What was overdue by the old times is set aside, and nothing fires.
        twins.overdue().await;
        let other_times = ScheduleDefinition { timing: TimingSpec::cron("0 4 2 * *", "Europe/Berlin"), ..same_times };
        store.update_schedule_if_version(api.id, 2, other_times).await.unwrap();
        twins
            .sql("UPDATE punctual.scheduled_jobs SET schedule = '0 4 2 * *', timezone = 'Europe/Berlin' WHERE name = 'sql'")
            .await;
        twins.settled().await;
        let (api, _) = twins.alike("an edit of the times").await;
        assert_eq!(twins.ledger(&api).await[0].reason.as_str(), "edited");
        assert!(api.state.last_job_id.is_none());

        store.pause_schedule(api.id, Some("postgres".into()), Some("n".into())).await.unwrap();
        twins.sql("SELECT punctual.pause_schedule('sql', 'n')").await;
        let (api, sql) = twins.alike("a pause").await;
        let pause = |it: Schedule| it.state.pause.map(|pause| (pause.by, pause.note, pause.until));
        assert_eq!(pause(api.clone()), pause(sql));
        twins
            .sql("UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '2 months'")
            .await;
        store.resume_schedule(api.id).await.unwrap();
        twins.sql("SELECT punctual.resume_schedule('sql')").await;
        twins.settled().await;
        let (api, sql) = twins.alike("a resume").await;
        assert!(api.state.enabled && sql.state.pause.is_none() && sql.state.forgiven.is_some());

        let to = api.state.next_slot_at.unwrap() + secs(3600);
        store.reschedule(api.id, to).await.unwrap();
        twins.client.execute("SELECT punctual.reschedule('sql', $1)", &[&SystemTime::from(to)]).await.unwrap();
        twins.settled().await;
        let (api, _) = twins.alike("a reschedule").await;
        assert_eq!(api.state.next_run_at, Some(to));

        store.skip_next(api.id, Some("postgres".into())).await.unwrap();
        twins.sql("SELECT punctual.skip_next('sql')").await;
        twins.settled().await;
        let (api, sql) = twins.alike("a skip").await;
        let notes = |rows: &[SlotRow]| rows[0].note.clone();
        assert_eq!(notes(&twins.ledger(&api).await), notes(&twins.ledger(&sql).await));

        store.delete_schedule(api.id).await.unwrap();
        twins.sql("DELETE FROM punctual.scheduled_jobs WHERE name = 'sql'").await;
        assert_eq!(store.schedules(None, 10).await.unwrap(), []);
        assert_eq!(twins.own.number("SELECT count(*) FROM punctual_internal.scheduled_jobs").await, 0);
        assert!(store.run_checks(100).await.unwrap().is_empty());
    });
}

#[test]
fn b01_several_things_that_are_asked_at_once_are_done_in_their_order() {
    block_on(async {
        let twins = Twins::new().await;
        twins
            .sql(
                "BEGIN;
                 INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, enabled)
                 VALUES ('s', 'f', '0 3 1 * *', false);
                 UPDATE punctual.scheduled_jobs SET schedule = '0 3 2 * *';
                 UPDATE punctual.scheduled_jobs SET schedule = '0 3 3 6 *', jitter = '0', priority = 7;
                 SELECT punctual.resume_schedule('s');
                 SELECT punctual.reschedule('s', date_trunc('minute', now()) + interval '1 hour');
                 SELECT punctual.skip_next('s');
                 COMMIT",
            )
            .await;
        twins.settled().await;
        let schedule = twins.schedule("s").await;
        let next = schedule.state.next_slot_at.unwrap().to_string();
        assert!(schedule.state.enabled && next.contains("-06-03T03:00:00Z"), "{next}");
        assert_eq!((schedule.version, schedule.definition.priority), (3, 7));
        let reasons: Vec<_> = twins.ledger(&schedule).await.iter().map(|row| row.reason.as_str()).collect();
        assert_eq!(reasons, ["rescheduled", "rescheduled"], "what was jumped over, and what was left out");

        // Paused again before anybody has carried out that it goes on.
        twins.sql("SELECT punctual.pause_schedule('s')").await;
        twins
            .sql("BEGIN; SELECT punctual.resume_schedule('s'); SELECT punctual.pause_schedule('s', 'no'); COMMIT")
            .await;
        twins.settled().await;
        let schedule = twins.schedule("s").await;
        assert_eq!(schedule.state.pause.unwrap().note.as_deref(), Some("no"));
    });
}

#[test]
fn b01_whoever_comes_next_finds_done_what_sql_asked_for() {
    block_on(async {
        let twins = Twins::new().await;
        let (_, sql) = twins.made().await;
        twins.sql("UPDATE punctual.scheduled_jobs SET schedule = '0 3 3 6 *' WHERE name = 'sql'").await;
        assert_eq!(twins.schedule("sql").await.state.next_run_at, None, "nothing is due until it is planned");
        assert!(twins.own.store.next_due_in().await.unwrap().unwrap().is_zero(), "there is something to do");
        let paused = twins.own.store.pause_schedule(sql.id, None, None).await.unwrap();
        assert!(paused.state.next_slot_at.unwrap().to_string().contains("-06-03T03:00:00Z"));
        twins.settled().await;
        twins.sql("BEGIN; UPDATE punctual.scheduled_jobs SET schedule = '@daily', enabled = true; ROLLBACK").await;
        assert_eq!(twins.schedule("sql").await, paused);
    });
}

#[test]
fn b01_slots_between_the_asking_and_the_doing_are_not_lost() {
    block_on(async {
        let twins = Twins::new().await;
        let insert =
            "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('s', 'f', '* * * * *')";
        twins.sql(insert).await;
        // Nobody was there for an hour.
        twins
            .sql(
                "UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 hour';
                 UPDATE punctual_internal.schedule_requests SET asked_at = asked_at - interval '1 hour'",
            )
            .await;
        twins.settled().await;
        twins.own.store.fire_due(None, 100).await.unwrap();
        let rows = twins.ledger(&twins.schedule("s").await).await;
        let decided: Vec<_> = rows.iter().map(|row| (row.decision.as_str(), row.count)).collect();
        assert!(matches!(decided[..], [("fired", 1), ("missed", 58..=60)]), "{decided:?}");
    });
}

#[test]
fn b01_what_only_the_scheduler_can_know_is_told_by_the_schedule_itself() {
    block_on(async {
        let twins = Twins::new().await;
        let insert =
            "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('s', 'f', '99 * * * *')";
        twins.sql(insert).await;
        twins.settled().await;
        let problem = "SELECT problem FROM punctual.scheduled_jobs";
        let told = twins.text(problem).await;
        assert!(told.contains("minute") && told.contains("99"), "{told}");
        twins.sql("UPDATE punctual.scheduled_jobs SET schedule = '59 * * * *'").await;
        twins.settled().await;
        assert_eq!(twins.text(problem).await, "");
        assert!(twins.schedule("s").await.state.next_run_at.is_some());

        // A row that was spoilt by hand: what is asked of it ends, and the next edit mends it.
        twins.sql("UPDATE punctual_internal.schedules SET missed = '7', version = version + 1").await;
        twins.sql("UPDATE punctual.scheduled_jobs SET schedule = '58 * * * *'").await;
        twins.settled().await;
        assert!(twins.text(problem).await.contains("missed"));
        twins.sql("UPDATE punctual.scheduled_jobs SET missed = 'all'").await;
        twins.settled().await;
        assert_eq!(twins.text(problem).await, "");
    });
}

#[test]
fn b01_what_the_api_does_is_there_for_sql_at_once() {
    block_on(async {
        let twins = Twins::new().await;
        let store = &twins.own.store;
        let made = store.create_schedule(minutely("s")).await.unwrap();
        let row = "SELECT concat_ws(' ', name, schedule, enabled, coalesce(function_name, '-'), timeout, missed)
                   FROM punctual.scheduled_jobs";
        assert_eq!(twins.text(row).await, "s * * * * * t - 01:00:00 once");
        store.pause_schedule(made.id, None, None).await.unwrap();
        assert_eq!(twins.text(row).await, "s * * * * * f - 01:00:00 once");
        let every = TimingSpec::Every { period: secs(90) };
        let edited = ScheduleDefinition { name: named("t"), timing: every, ..made.definition.clone() };
        store.update_schedule_if_version(made.id, 1, edited).await.unwrap();
        assert_eq!(twins.text(row).await, "t @every 1m30s f - 01:00:00 once");
        // What SQL does not touch stays as it was.
        twins.sql("UPDATE punctual.scheduled_jobs SET priority = 3, enabled = true").await;
        twins.settled().await;
        let now = twins.schedule("t").await;
        assert_eq!(
            (now.definition.timing, now.definition.target),
            (TimingSpec::Every { period: secs(90) }, made.definition.target)
        );
        assert_eq!((now.definition.priority, now.state.enabled), (3, true));
        store.delete_schedule(made.id).await.unwrap();
        assert_eq!(twins.own.number("SELECT count(*) FROM punctual.scheduled_jobs").await, 0);
        // The name is free again, for both.
        twins
            .sql("INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('t', 'f', '@daily')")
            .await;
        let taken = store.create_schedule(minutely("t")).await.unwrap_err().to_string();
        assert!(taken.contains('t') && taken.contains("schedule"), "{taken}");
    });
}

#[test]
fn b01_schedules_from_before_the_surface_are_there_too() {
    block_on(async {
        let database = Database::empty().await;
        let client = database.connect().await;
        let is_older = |file: &std::path::PathBuf| file.file_name().is_some_and(|name| name < "0012");
        let before: Vec<_> = migrations().into_iter().filter(is_older).collect();
        install(&client, &before).await;
        let make = "INSERT INTO punctual_internal.schedules (id, name, every_us, target, seed, anchor_at, created_at,
                      updated_at, deleted_at)
                    SELECT gen_random_uuid(), n, 90000000, '{\"kind\":\"command\",\"argv\":[\"true\"]}', n, now(), now(),
                      now(), CASE n WHEN 'gone' THEN now() END
                    FROM unnest(ARRAY['kept', 'gone']) AS n;
                    INSERT INTO punctual_internal.schedule_state (schedule_id, enabled, paused_at)
                    SELECT id, false, now() FROM punctual_internal.schedules";
        client.batch_execute(make).await.unwrap();
        PostgresStore::connect(&database.url(), PostgresOptions::default()).await.unwrap();
        let rows = client.query("SELECT name, schedule, enabled FROM punctual.scheduled_jobs", &[]).await.unwrap();
        let found: Vec<(&str, &str, bool)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(found, [("kept", "@every 1m30s", false)]);
    });
}

#[test]
fn b01_what_sql_asked_for_is_carried_out_before_the_store_leaves_and_refused_after() {
    block_on(async {
        let twins = Twins::new().await;
        let insert = |name: &str| {
            format!(
                "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('{name}', 'f', '{MONTHLY}')"
            )
        };
        twins.sql(&insert("asked")).await;
        assert_eq!(twins.schedule("asked").await.state.next_slot_at, None, "nobody has carried it out");
        assert!(
            twins.own.store.stop_writing(uuid::Uuid::nil(), "it has moved").await.is_err(),
            "nobody has begun to move it"
        );
        let (id, other) = (uuid::Uuid::nil(), "elsewhere".to_owned());
        let part = Move { id, stage: MoveStage::Leaving, other, began_at: clock_time("00:00:00") };
        twins.own.store.begin_to_leave(&part, "it leaves").await.unwrap();
        assert!(twins.own.store.begin_to_leave(&part, "it leaves").await.is_err(), "once is enough");
        twins.own.store.stop_writing(id, "it has moved").await.unwrap();
        assert!(twins.schedule("asked").await.state.next_slot_at.is_some());
        assert_eq!(twins.own.number("SELECT count(*) FROM punctual_internal.schedule_requests").await, 0);
        let late = twins.client.batch_execute(&insert("late")).await.unwrap_err();
        assert_eq!(late.as_db_error().map(tokio_postgres::error::DbError::message), Some("it has moved"));
        twins.own.store.begin_to_stay(id).await.unwrap();
        twins.own.store.stay(id).await.unwrap();
        twins.sql(&insert("late")).await;
    });
}
