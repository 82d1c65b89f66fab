//! Who may write what: real logins of the worker's and the execution service's roles, and what each is refused (A25).

use crate::harness::{Own, done, migrations, node, options};
use punctual_core::execution::{Begun, Executions, NewExecution};
use punctual_core::grant::{Grants, NewGrant};
use punctual_core::graph::{GraphEnd, Used};
use punctual_core::id::DriverId;
use punctual_core::store::Store;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::Database;
use punctual_testkit::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// What a worker may not add to: everything else in the schema is for it to write.
const NOT_FOR_WORKERS: [&str; 16] = [
    "api_tokens",
    "audit_log",
    "billing_accounts",
    "charge_receipts",
    "execution_requests",
    "frozen",
    "grants",
    "graph_runs",
    "idempotency_keys",
    "migrations",
    "move_progress",
    "moves",
    "owner_checks",
    "partitions",
    "scheduled_jobs",
    "sessions",
];

/// A login of a role, on one database; gone with [`Login::drop_from`].
pub struct Login {
    name: String,
    /// Where to connect with it.
    pub url: String,
}

impl Login {
    /// With a name of its own, because logins belong to the whole server.
    pub async fn of(role: &str, database: &Database) -> Self {
        let name = format!("{}_{role}", database.name());
        let make = format!("CREATE ROLE {name} LOGIN PASSWORD 'known' IN ROLE {role}");
        database.connect().await.batch_execute(&make).await.unwrap();
        let url = format!("postgres://{name}:known@{}/{}", database.server(), database.name());
        Self { name, url }
    }

    pub async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub async fn drop_from(self, database: &Database) {
        database.connect().await.batch_execute(&format!("DROP ROLE {}", self.name)).await.unwrap();
    }
}

/// Somebody's installation as it was when there were only these migrations.
pub async fn install(client: &Client, files: &[PathBuf]) {
    client.batch_execute("CREATE SCHEMA punctual_internal").await.unwrap();
    let table = "CREATE TABLE punctual_internal.migrations (number bigint PRIMARY KEY, name text NOT NULL,
                 breaking boolean NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
    client.batch_execute(table).await.unwrap();
    for file in files {
        client.batch_execute(&std::fs::read_to_string(file).unwrap()).await.unwrap();
        let number = file.file_name().unwrap().to_str().unwrap()[..4].parse::<i64>().unwrap();
        let record = format!("INSERT INTO punctual_internal.migrations VALUES ({number}, 'old', true)");
        client.batch_execute(&record).await.unwrap();
    }
}

/// Whether the server says that this is not for who asks.
async fn is_denied(client: &Client, sql: &str) -> bool {
    let tried = client.batch_execute(sql).await;
    tried.is_err_and(|error| error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE))
}

fn asked(grant: punctual_core::id::GrantId) -> NewExecution {
    NewExecution {
        key: "k".into(),
        hash: [1; 32],
        graph: "flow:a".parse().unwrap(),
        grant_id: grant,
        owner: None,
        input: json("{}"),
        trace_id: "0".repeat(32),
        service: None,
        driver: DriverId(Uuid::from_u128(1)),
    }
}

fn ended() -> GraphEnd {
    let used = vec![Used { unit: "run".into(), quantity: 1 }];
    GraphEnd { failure: None, output: None, references: std::collections::BTreeMap::new(), used }
}

#[test]
fn a25_the_execution_service_can_do_its_work_and_writes_nothing_of_schedules() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.apply_roles().await.unwrap();
        let grant = NewGrant {
            owner: "ada".into(),
            billing_account: "acme".into(),
            scopes: vec!["graph:execute:*".parse().unwrap()],
            expires_at: None,
            max_runs: None,
            rate: None,
        };
        let grant = own.store.create_grant(grant).await.unwrap().id;
        own.store.create_schedule(minutely("theirs")).await.unwrap();

        let login = Login::of("punctual_execution", &own.database).await;
        let service = PostgresStore::connect(&login.url, options(own.clock.clone())).await.unwrap();
        let Begun::Mine(run) = service.begin_execution(asked(grant)).await.unwrap() else { panic!("it is begun") };
        assert!(service.beat_execution(run.run_id, DriverId(Uuid::from_u128(1))).await.unwrap());
        let (driver, answer) = (DriverId(Uuid::from_u128(1)), "{}".to_owned());
        assert!(service.end_execution_if_driven(run.run_id, driver, ended(), answer).await.unwrap());
        assert_eq!(service.receipts(run.run_id).await.unwrap().len(), 1);
        drop(service);

        let client = login.connect().await;
        for table in ["slots", "runs", "jobs", "schedules", "schedule_state", "schedule_results", "schedule_versions"] {
            for sql in ["DELETE FROM", "TRUNCATE", "SELECT count(*) FROM", "DROP TABLE"] {
                let sql = format!("{sql} punctual_internal.{table}");
                assert!(is_denied(&client, &sql).await, "the execution service may {sql}");
            }
            let sql = format!("INSERT INTO punctual_internal.{table} DEFAULT VALUES");
            assert!(is_denied(&client, &sql).await, "the execution service may {sql}");
        }
        for sql in [
            "UPDATE punctual_internal.grants SET revoked_at = NULL",
            "UPDATE punctual_internal.grants SET scopes = '[]'",
            "DELETE FROM punctual_internal.charge_receipts",
            "UPDATE punctual_internal.charge_receipts SET quantity = 0",
            "SELECT * FROM punctual_internal.api_tokens",
        ] {
            assert!(is_denied(&client, sql).await, "the execution service may {sql}");
        }
        drop(client);
        login.drop_from(&own.database).await;
    });
}

#[test]
fn a25_a_worker_can_do_its_work_and_writes_nothing_of_the_execution_service() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.apply_roles().await.unwrap();
        let login = Login::of("punctual_worker", &own.database).await;
        let worker = PostgresStore::connect(&login.url, options(own.clock.clone())).await.unwrap();
        let lease = worker.register_node(node("w")).await.unwrap();
        worker.enqueue_jobs(vec![job()]).await.unwrap();
        let claimed = worker.claim_jobs_if_leased(claim_request(lease, ALL)).await.unwrap();
        worker.finish_runs_if_leased(lease, vec![done(claimed[0].job.id)]).await.unwrap();
        drop(worker);

        let client = login.connect().await;
        for table in ["graph_runs", "execution_requests", "charge_receipts", "billing_accounts"] {
            for sql in ["DELETE FROM", "TRUNCATE", "SELECT count(*) FROM", "DROP TABLE"] {
                let sql = format!("{sql} punctual_internal.{table}");
                assert!(is_denied(&client, &sql).await, "a worker may {sql}");
            }
            let sql = format!("INSERT INTO punctual_internal.{table} DEFAULT VALUES");
            assert!(is_denied(&client, &sql).await, "a worker may {sql}");
        }
        let sql = "UPDATE punctual_internal.graph_runs SET ended_at = now()";
        assert!(is_denied(&client, sql).await, "a worker may {sql}");
        drop(client);
        login.drop_from(&own.database).await;
    });
}

/// A new table belongs into one of the lists of `sql/roles/`, or here.
#[test]
fn a25_it_is_decided_for_every_table_whether_a_worker_writes_it() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.apply_roles().await.unwrap();
        // Partitions are written through the table that they are parts of.
        let find = "SELECT relname::text FROM pg_class WHERE relnamespace = 'punctual_internal'::regnamespace
                      AND relkind IN ('r', 'p') AND NOT relispartition
                      AND NOT has_table_privilege('punctual_worker', oid, 'INSERT') AND relname <> 'retention'";
        let rows = own.database.connect().await.query(find, &[]).await.unwrap();
        let closed: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let decided: BTreeSet<String> = NOT_FOR_WORKERS.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(closed, decided, "left: what a worker's role cannot add to; decide it in sql/roles/worker.sql");
    });
}

#[test]
fn a25_a_role_that_was_let_in_may_use_what_a_migration_brings() {
    block_on(async {
        let database = Database::empty().await;
        let client = database.connect().await;
        // As it was one migration ago, with a worker's role.
        let files = migrations();
        install(&client, &files[..files.len() - 1]).await;
        let may = "SELECT has_table_privilege('punctual_worker', 'punctual_internal.queue', 'INSERT')";
        let make = "DO $$ BEGIN CREATE ROLE punctual_worker NOLOGIN;
                    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$";
        client.batch_execute(make).await.unwrap();
        assert!(!client.query_one(may, &[]).await.unwrap().get::<_, bool>(0));
        client.batch_execute("GRANT USAGE ON SCHEMA punctual_internal TO punctual_worker").await.unwrap();
        PostgresStore::connect(&database.url(), PostgresOptions::default()).await.unwrap();
        assert!(client.query_one(may, &[]).await.unwrap().get::<_, bool>(0), "it keeps up with the schema");
    });
}

/// Whoever has a database and may make no roles is not kept from using it.
#[test]
fn a25_the_schema_needs_nobody_who_may_make_roles() {
    block_on(async {
        let database = Database::empty().await;
        let admin = database.connect().await;
        let owner = format!("{}_owner", database.name());
        let make = format!(
            "CREATE ROLE {owner} LOGIN PASSWORD 'known'; GRANT CREATE ON DATABASE {} TO {owner}",
            database.name()
        );
        admin.batch_execute(&make).await.unwrap();
        let url = format!("postgres://{owner}:known@{}/{}", database.server(), database.name());
        let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
        assert_eq!(store.enqueue_jobs(vec![job()]).await.unwrap().len(), 1);
        drop(store);
        admin.batch_execute(&format!("DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}")).await.unwrap();
    });
}
