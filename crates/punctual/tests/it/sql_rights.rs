//! What a client and a reader may do is what docs/sql.md says, and nothing else: every table, view, sequence and function
//! of both schemas is tried.

use crate::sql_world::SqlWorld;
use std::collections::BTreeSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// The views that all may read.
const VIEWS: [&str; 5] = ["jobs_overview", "scheduled_job_runs", "scheduled_job_status", "scheduled_jobs", "slots"];

const RELATIONS: &str = "
    SELECT format('%I.%I', n.nspname, c.relname), c.relkind::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('punctual', 'punctual_internal') AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') ORDER BY 1";

/// Every function that can be called by name, with a call in which every argument is null.
const FUNCTIONS: &str = "
    SELECT format('%I.%I', n.nspname, p.proname),
           format('SELECT %I.%I(%s)', n.nspname, p.proname,
                  (SELECT string_agg(format('NULL::%s', format_type(t, NULL)), ', ' ORDER BY at)
                   FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (t, at))),
           has_function_privilege($1::text, p.oid, 'EXECUTE')
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('punctual', 'punctual_internal') AND p.prorettype <> 'trigger'::regtype ORDER BY 1, 2";

impl SqlWorld {
    async fn connect_as(&self, who: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url_of(who), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

/// Whether somebody is let in: what he does there is undone, and what else is wrong with it is no matter.
async fn may(client: &Client, sql: &str) -> bool {
    attempt(client, sql).await != Some(SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Why something cannot be done; what could be is undone.
async fn attempt(client: &Client, sql: &str) -> Option<SqlState> {
    let tried = client.batch_execute(&format!("BEGIN; {sql}")).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    tried.err().map(|error| error.code().expect("the server says why").clone())
}

/// What somebody may do to a relation, tried and asked.
async fn rights(client: &Client, relation: &str, kind: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let attempts = if kind == "S" {
        vec![("read", format!("SELECT * FROM {relation}")), ("use", format!("SELECT nextval('{relation}')"))]
    } else {
        vec![
            ("read", format!("SELECT * FROM {relation} LIMIT 1")),
            ("insert", format!("INSERT INTO {relation} DEFAULT VALUES")),
            ("delete", format!("DELETE FROM {relation} WHERE false")),
            ("truncate", format!("TRUNCATE {relation}")),
            ("lock", format!("LOCK TABLE {relation} IN ACCESS EXCLUSIVE MODE")),
            ("own", format!("ALTER TABLE {relation} RENAME TO taken")),
        ]
    };
    for (what, sql) in attempts {
        // Nobody can write to a view that is not made for it, and no view is truncated or a table that is renamed.
        let never =
            [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, SqlState::WRONG_OBJECT_TYPE];
        if !attempt(client, &sql).await.is_some_and(|code| never.contains(&code)) {
            found.insert(what.to_owned());
        }
    }
    let asked = if kind == "S" {
        "SELECT name FROM unnest(ARRAY['SELECT', 'USAGE', 'UPDATE']) AS name WHERE has_sequence_privilege($1::text, name)"
    } else {
        "SELECT name FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS name
         WHERE has_any_column_privilege($1::text, name)
         UNION ALL SELECT name FROM unnest(ARRAY['DELETE', 'TRUNCATE', 'TRIGGER']) AS name
         WHERE has_table_privilege($1::text, name)"
    };
    // Whoever may not even look into a schema may ask nothing about what is in it.
    if let Ok(rows) = client.query(asked, &[&relation]).await {
        found.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    found
}

/// What the page lets somebody do to a relation.
fn promised(who: &str, relation: &str) -> BTreeSet<String> {
    let words: &[&str] = match relation.strip_prefix("punctual.") {
        // In PostgreSQL, who may change a table may lock it.
        Some("scheduled_jobs") if who != "rita" => {
            &["read", "insert", "delete", "lock", "SELECT", "INSERT", "UPDATE", "DELETE"]
        }
        Some(view) if VIEWS.contains(&view) => &["read", "SELECT"],
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_a_client_may_do_what_its_page_says_and_nothing_else() {
    let world = SqlWorld::new().await;
    let catalog = world.database().connect().await;
    // Somebody else's, so that there is something to reach for.
    world.done(
        "bert",
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('theirs', 'jobs.f', '@daily')",
    );
    world.done("bert", "SELECT punctual.add_job('theirs', run_at => now() + interval '1 day')");
    let relations = catalog.query(RELATIONS, &[]).await.unwrap();
    assert!(relations.len() > 40, "only {} relations are found", relations.len());
    for who in ["ada", "rita"] {
        let client = world.connect_as(who).await;
        for row in &relations {
            let (relation, kind): (String, String) = (row.get(0), row.get(1));
            let found = rights(&client, &relation, &kind).await;
            assert_eq!(found, promised(who, &relation), "{who} and {relation}");
        }
        let functions = catalog.query(FUNCTIONS, &[&world.name(who)]).await.unwrap();
        assert!(functions.len() > 30, "only {} functions are found", functions.len());
        for row in functions {
            let (name, call, executes): (String, String, bool) = (row.get(0), row.get(1), row.get(2));
            let public = name.starts_with("punctual.") && who == "ada" && name != "punctual.set_owner_checks";
            assert_eq!(may(&client, &call).await, public, "{who} and {call}");
            assert!(public || !name.starts_with("punctual.") || !executes, "{who} and {name}");
        }
        for sql in [
            "CREATE TABLE punctual.mine (n int)",
            "CREATE TABLE punctual_internal.mine (n int)",
            "CREATE FUNCTION punctual.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION punctual.cancel_job",
            "DROP VIEW punctual.slots",
            "SET ROLE punctual_admin",
            "SET ROLE punctual_worker",
            "SET SESSION AUTHORIZATION postgres",
            "CREATE TRIGGER mine INSTEAD OF INSERT ON punctual.scheduled_jobs FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        ] {
            assert!(!may(&client, sql).await, "{who} may {sql}");
        }
    }
    // All of that has changed nothing.
    assert_eq!(world.done("grace", "SELECT name, enabled, problem FROM punctual.scheduled_jobs"), "theirs|t|");
    assert_eq!(world.done("grace", "SELECT count(*), min(state) FROM punctual.jobs_overview"), "1|scheduled");
}

/// What somebody does to a schedule and to a job that are another's.
const MEDDLING: [&str; 9] = [
    "SELECT punctual.trigger_scheduled_job('hers')",
    "SELECT punctual.pause_schedule('hers')",
    "SELECT punctual.resume_schedule('hers')",
    "SELECT punctual.reschedule('hers', now() + interval '1 hour')",
    "SELECT punctual.skip_next('hers')",
    "SELECT punctual.cancel_job('JOB')",
    "SELECT punctual.retry_job('JOB')",
    "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('hers', 'jobs.f', '@daily')
     ON CONFLICT (name) DO UPDATE SET schedule = '@hourly'",
    "SELECT punctual.add_job('other', job_key => 'her key')",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_what_is_anothers_is_not_changed_and_with_owner_checks_not_even_seen() {
    let world = SqlWorld::new().await;
    world.done(
        "ada",
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('hers', 'jobs.f', '@daily')",
    );
    let job =
        world.done("ada", "SELECT punctual.add_job('hers', run_at => now() + interval '1 day', job_key => 'her key')");
    world.done("ada", "SELECT punctual.trigger_scheduled_job('hers')");
    world.done(
        "bert",
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('his', 'jobs.f', '@daily')",
    );
    let state =
        "SELECT schedule, enabled, owner, next_run_at, problem FROM punctual.scheduled_jobs WHERE name = 'hers';
                 SELECT state, owner, job_key FROM punctual.jobs_overview ORDER BY id";
    let before = world.done("grace", state);
    let seen = "SELECT string_agg(name, ' ' ORDER BY name) FROM punctual.scheduled_jobs;
                SELECT string_agg(name, ' ' ORDER BY name) FROM punctual.scheduled_job_status;
                SELECT count(*) FROM punctual.jobs_overview; SELECT count(*) FROM punctual.scheduled_job_runs;
                SELECT count(*) FROM punctual.slots";
    for checks in [false, true] {
        world.done("grace", &format!("SELECT punctual.set_owner_checks({checks})"));
        for sql in MEDDLING {
            let said = world.refused("bert", &sql.replace("JOB", &job));
            assert!(said.contains("ERROR:"), "{sql}: {said}");
            assert!(!checks || !said.contains(&world.name("ada")), "nothing is told of what is not seen: {said}");
        }
        for sql in [
            "UPDATE punctual.scheduled_jobs SET enabled = false WHERE name = 'hers'",
            "DELETE FROM punctual.scheduled_jobs WHERE name = 'hers'",
        ] {
            match world.psql("bert", &format!("{sql} RETURNING name")) {
                Err(said) => assert!(!checks && said.contains("HINT:"), "{said}"),
                Ok(answer) => assert!(checks && answer.is_empty(), "{answer}"),
            }
        }
        let his = if checks { "his\nhis\n0\n0\n0" } else { "hers his\nhers his\n2\n0\n0" };
        assert_eq!(world.done("bert", seen), his);
        assert_eq!(world.done("grace", seen), "hers his\nhers his\n2\n0\n0", "an administrator sees everything");
        assert_eq!(world.done("ada", "SELECT count(*) FROM punctual.jobs_overview"), "2");
        let said = world.refused("bert", "UPDATE punctual.scheduled_jobs SET owner = 'postgres' WHERE name = 'his'");
        assert!(said.contains("ERROR:"), "{said}");
        let said = world.refused("bert", "SELECT punctual.set_owner_checks(false)");
        assert!(said.contains("permission denied"), "{said}");
        assert_eq!(world.done("grace", state), before, "nothing has changed");
    }
    // A role that a team shares.
    let team = world.name("team");
    let (ada, bert) = (world.name("ada"), world.name("bert"));
    world.as_superuser(&format!("CREATE ROLE {team} IN ROLE punctual_client; GRANT {team} TO {ada}, {bert}")).await;
    world.done(
        "ada",
        &format!("SET ROLE {team}; INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('ours', 'jobs.f', '@daily')"),
    );
    assert_eq!(
        world.done("bert", "SELECT name, owner FROM punctual.scheduled_jobs WHERE name = 'ours'"),
        format!("ours|{team}")
    );
    world.done("bert", "UPDATE punctual.scheduled_jobs SET description = 'of us all' WHERE name = 'ours'");
    world.done("bert", "SELECT punctual.pause_schedule('ours', 'for a while')");
    assert_eq!(world.done("ada", "SELECT pause_note FROM punctual.scheduled_jobs WHERE name = 'ours'"), "for a while");
    world.done("grace", &format!("UPDATE punctual.scheduled_jobs SET owner = '{ada}' WHERE name = 'ours'"));
    assert_eq!(world.done("bert", "SELECT name FROM punctual.scheduled_jobs"), "his", "it was given away");
    world.as_superuser(&format!("DROP ROLE {team}")).await;
}

/// What a client does to its own, one after another; each must be let through.
const OWN: [&str; 9] = [
    "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('mine', 'jobs.f', '@daily')",
    "UPDATE punctual.scheduled_jobs SET schedule = '@hourly', description = 'mine' WHERE name = 'mine'",
    "SELECT punctual.pause_schedule('mine', 'a note', now() + interval '1 hour')",
    "SELECT punctual.resume_schedule('mine')",
    "SELECT punctual.trigger_scheduled_job('mine', '{\"n\": 1}')",
    "SELECT punctual.cancel_job(id) FROM punctual.jobs_overview WHERE schedule_name = 'mine' AND state = 'queued'",
    "SELECT punctual.retry_job(id) FROM punctual.jobs_overview WHERE schedule_name = 'mine' AND state = 'cancelled'",
    "SELECT punctual.add_jobs(ARRAY[('a', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)]::punctual.job_spec[])",
    "DELETE FROM punctual.scheduled_jobs WHERE name = 'mine'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_a_client_may_do_everything_to_its_own() {
    let world = SqlWorld::new().await;
    for sql in OWN {
        world.done("ada", sql);
    }
    assert_eq!(world.done("ada", "SELECT count(*) FROM punctual.scheduled_jobs"), "0");
    // A job is a task or a function, and not both or neither.
    let job = |what: &str| format!("SELECT punctual.add_job({what}) IS NOT NULL");
    assert_eq!(world.done("ada", &job("NULL, function_name => 'jobs.f'")), "t");
    for what in ["NULL", "'task', function_name => 'jobs.f'", "'task', job_key_mode => 'merge', job_key => 'k'"] {
        let said = world.refused("ada", &job(what));
        assert!(said.contains("ERROR:") && said.contains("HINT:"), "{what}: {said}");
    }
}
