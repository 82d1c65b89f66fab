//! Functions as jobs: the contract, names that try to be more than names, limits, and functions that misbehave.

use jiff::SignedDuration;
use punctual_core::execute::{Executor, StopReason};
use punctual_core::job::{NewJob, Timeout};
use punctual_core::json::{JSON_MAX_BYTES, Json};
use punctual_core::records::LogStream;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::secret::Secret;
use punctual_core::store::FinishedRun;
use punctual_core::target::{Sql, Target};
use punctual_store_postgres::sql_target::{FunctionExecutor, SqlConnection, check_address};
use punctual_testkit::by_hand::ByHand;
use punctual_testkit::postgres::Database;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

/// A database with functions, and an executor that may call those of the schema `jobs`.
struct Functions {
    database: Database,
    client: Client,
    executor: FunctionExecutor,
}

impl Functions {
    async fn new(script: &str) -> Self {
        Self::with(script, |_| ()).await
    }

    async fn with(script: &str, change: impl FnOnce(&mut SqlConnection)) -> Self {
        let database = Database::empty().await;
        let client = database.connect().await;
        client.batch_execute(&format!("CREATE SCHEMA jobs; {script}")).await.unwrap();
        let url = database.url();
        let mut connection = SqlConnection::new(Arc::new(move || Ok(Secret::new(url.clone()))));
        connection.allowed = vec!["jobs.*".parse().unwrap()];
        change(&mut connection);
        Self { database, client, executor: FunctionExecutor::new(connection) }
    }

    async fn call(&self, function: &str) -> FinishedRun {
        self.call_with(function, "{}").await
    }

    async fn call_with(&self, function: &str, input: &str) -> FinishedRun {
        self.executor.run(ByHand::default().context(job(function, input))).await
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Waits until so many connections of jobs are as asked.
    async fn until(&self, condition: &str, wanted: i64) {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND application_name LIKE 'punctual job %' AND {condition}"
        );
        while self.number(&count).await != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until no connection of a job is left.
    async fn until_left_alone(&self) {
        self.until("true", 0).await;
    }
}

fn job(function: &str, input: &str) -> NewJob {
    NewJob {
        input: Json::parse("input", input).unwrap(),
        timeout: Timeout::After(SignedDuration::from_mins(1)),
        ..NewJob::new(Target::Sql(Sql::function("main", function)))
    }
}

/// A function that answers with an expression.
fn answering(name: &str, expression: &str) -> String {
    format!("CREATE FUNCTION jobs.{name} RETURNS jsonb LANGUAGE sql AS $$ SELECT {expression} $$;")
}

/// A function with a body.
fn doing(name: &str, body: &str) -> String {
    format!("CREATE FUNCTION jobs.{name} RETURNS jsonb LANGUAGE plpgsql AS $f$ BEGIN {body} END $f$;")
}

const GOOD: &str = r#"'{"success": true, "message": "fine"}'::jsonb"#;

fn failed_with(end: &FinishedRun, code: ErrorCode, says: &str) {
    assert_eq!((end.outcome, end.error_code), (Outcome::Failed, Some(code)), "{end:?}");
    assert!(end.error.as_deref().unwrap().contains(says), "{end:?}");
}

#[tokio::test]
async fn b02_a_function_gets_the_input_and_answers_by_the_contract() {
    let echo = r"jsonb_build_object('success', true, 'message', 'hi', 'details', $1)";
    let scripts = [
        answering("echo(jsonb)", echo),
        answering("nothing()", GOOD),
        answering("both()", "NULL::jsonb"),
        answering("both(jsonb)", echo),
        answering("with_default(a jsonb, b integer DEFAULT 1)", echo),
        answering("all_default(b integer DEFAULT 1)", GOOD),
    ];
    let functions = Functions::new(&scripts.concat()).await;
    for name in ["jobs.echo", "JOBS.Echo", "jobs.both", "jobs.with_default", "jobs . echo"] {
        let end = functions.call_with(name, r#"{"n":[1,"ä"]}"#).await;
        assert_eq!(end.outcome, Outcome::Completed, "{name}: {end:?}");
        let output: serde_json::Value = end.output.unwrap().to().unwrap();
        assert_eq!(output["details"], serde_json::json!({ "n": [1, "ä"] }), "{name}");
    }
    for name in ["jobs.nothing", "jobs.all_default"] {
        assert_eq!(functions.call(name).await.outcome, Outcome::Completed, "{name}");
    }
    functions.until_left_alone().await;
}

/// Every way in which an answer can be wrong, each with its code and its words.
#[tokio::test]
async fn b02_what_breaks_the_contract_is_a_failed_run() {
    let big = JSON_MAX_BYTES + 1;
    let scripts = [
        answering("says_no()", r#"'{"success": false, "message": "the books do not balance"}'::jsonb"#),
        answering("says_no_more()", r#"'{"success": false}'::jsonb"#),
        answering("null()", "NULL::jsonb"),
        answering("json_null()", "'null'::jsonb"),
        answering("text()", r#"'"fine"'::jsonb"#),
        answering("list()", "'[]'::jsonb"),
        answering("other()", r#"'{"ok": true}'::jsonb"#),
        answering("word()", r#"'{"success": "yes", "message": ""}'::jsonb"#),
        answering("message()", r#"'{"success": true, "message": 7}'::jsonb"#),
        answering("huge()", &format!("jsonb_build_object('success', true, 'message', repeat('x', {big}))")),
        doing("raises()", "RAISE EXCEPTION 'no money' USING ERRCODE = 'P0042', DETAIL = 'at all', HINT = 'earn some';"),
        doing("divides()", "RETURN to_jsonb(1 / 0);"),
        "CREATE FUNCTION jobs.returns_text() RETURNS text LANGUAGE sql AS $$ SELECT 'fine' $$;".to_owned(),
        "CREATE FUNCTION jobs.returns_rows() RETURNS SETOF jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb $$;".to_owned(),
        "CREATE FUNCTION jobs.returns_void() RETURNS void LANGUAGE sql AS $$ SELECT 1 $$;".to_owned(),
        "CREATE PROCEDURE jobs.procedure() LANGUAGE sql AS $$ SELECT 1 $$;".to_owned(),
        answering("two(jsonb, jsonb)", GOOD),
        answering("number(integer)", GOOD),
    ];
    let functions = Functions::new(&scripts.concat()).await;
    for (name, code, says) in [
        ("jobs.says_no", ErrorCode::TargetError, "the books do not balance"),
        ("jobs.says_no_more", ErrorCode::TargetError, "without a message"),
        ("jobs.null", ErrorCode::BadOutput, "answered null"),
        ("jobs.json_null", ErrorCode::BadOutput, "it must answer"),
        ("jobs.text", ErrorCode::BadOutput, "it must answer"),
        ("jobs.list", ErrorCode::BadOutput, "it must answer"),
        ("jobs.other", ErrorCode::BadOutput, "missing field `success`"),
        ("jobs.word", ErrorCode::BadOutput, "it must answer"),
        ("jobs.message", ErrorCode::BadOutput, "it must answer"),
        ("jobs.huge", ErrorCode::OutputTooLarge, "at most 1048576"),
        ("jobs.raises", ErrorCode::TargetError, "no money (P0042)\ndetail: at all\nhint: earn some"),
        ("jobs.divides", ErrorCode::TargetError, "division by zero (22012)"),
        ("jobs.returns_text", ErrorCode::BadOutput, "jobs.returns_text returns text; it must return jsonb"),
        ("jobs.returns_rows", ErrorCode::BadOutput, "returns setof jsonb"),
        ("jobs.returns_void", ErrorCode::BadOutput, "returns void"),
        ("jobs.procedure", ErrorCode::BadOutput, "it must return jsonb"),
        ("jobs.two", ErrorCode::TargetRejected, "takes (jsonb, jsonb); it must take one jsonb, or nothing"),
        ("jobs.number", ErrorCode::TargetRejected, "takes (integer)"),
        ("jobs.missing", ErrorCode::TargetError, "there is no function jobs.missing"),
        ("missing.function", ErrorCode::TargetError, "there is no function"),
    ] {
        failed_with(&functions.call(name).await, code, says);
    }
    functions.until_left_alone().await;
}

#[tokio::test]
async fn b12_names_are_names_whatever_is_in_them() {
    let names = ["CamelCase", "with space", "dot.ted", "; DROP TABLE jobs.kept; --", "say \"\"hi\"\"", "select", "ünï"];
    let mut script = "CREATE TABLE jobs.kept (n integer); CREATE SCHEMA \"My Jobs\";".to_owned();
    for name in names {
        script += &answering(&format!("\"{name}\"()"), GOOD);
        let elsewhere = answering(&format!("\"{name}\"()"), GOOD).replacen(" jobs.", " \"My Jobs\".", 1);
        script += &elsewhere;
    }
    let functions = Functions::with(&script, |connection| {
        connection.allowed.push("\"My Jobs\".*".parse().unwrap());
    })
    .await;
    for name in names {
        for called in [format!("jobs.\"{name}\""), format!("\"My Jobs\".\"{name}\"")] {
            assert_eq!(functions.call(&called).await.outcome, Outcome::Completed, "{called}");
        }
    }
    for (called, code) in [
        ("jobs.CamelCase", ErrorCode::TargetError),
        ("jobs.kept; DROP TABLE jobs.kept", ErrorCode::TargetRejected),
        ("jobs.nothing()", ErrorCode::TargetRejected),
        ("\"; DROP TABLE jobs.kept; --\"", ErrorCode::TargetError),
        ("\"", ErrorCode::TargetRejected),
        ("jobs.", ErrorCode::TargetRejected),
        ("a.b.c.d", ErrorCode::TargetError),
        ("jobs.$1", ErrorCode::TargetRejected),
        ("jobs.nothing -- ", ErrorCode::TargetRejected),
    ] {
        let end = functions.call(called).await;
        assert_eq!(end.error_code, Some(code), "{called}: {end:?}");
    }
    assert_eq!(functions.number("SELECT count(*) FROM jobs.kept").await, 0, "the table is still there");
}

#[tokio::test]
async fn b12_only_what_the_list_and_the_role_allow_is_called() {
    let script = [
        "CREATE TABLE jobs.calls (name text); CREATE SCHEMA other;".to_owned(),
        doing("clean_up()", &format!("INSERT INTO jobs.calls VALUES ('clean_up'); RETURN {GOOD};")),
        doing("wipe()", &format!("INSERT INTO jobs.calls VALUES ('wipe'); RETURN {GOOD};")),
        format!("CREATE FUNCTION other.clean_up() RETURNS jsonb LANGUAGE sql AS $$ SELECT {GOOD} $$;"),
    ];
    let functions = Functions::with(&script.concat(), |connection| {
        connection.allowed = vec!["jobs.clean_*".parse().unwrap()];
    })
    .await;
    assert_eq!(functions.call("jobs.clean_up").await.outcome, Outcome::Completed);
    for name in ["jobs.wipe", "other.clean_up", "pg_catalog.pg_reload_conf", "pg_catalog.now"] {
        failed_with(&functions.call(name).await, ErrorCode::TargetRejected, "may call");
    }
    // A role that is not given the function cannot call it, whatever the list says.
    let role = format!("caller_{}", functions.database.name());
    let grant = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA jobs TO {role};
                         REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA jobs FROM PUBLIC"
    );
    functions.client.batch_execute(&grant).await.unwrap();
    let url = with_user(&functions.database.url(), &role);
    let mut connection = SqlConnection::new(Arc::new(move || Ok(Secret::new(url.clone()))));
    connection.allowed = vec!["jobs.*".parse().unwrap()];
    let end = FunctionExecutor::new(connection).run(ByHand::default().context(job("jobs.clean_up", "{}"))).await;
    failed_with(&end, ErrorCode::TargetRejected, "role may not call");
    let nothing_allowed = SqlConnection::new(Arc::new({
        let url = functions.database.url();
        move || Ok(Secret::new(url.clone()))
    }));
    let end = FunctionExecutor::new(nothing_allowed).run(ByHand::default().context(job("jobs.clean_up", "{}"))).await;
    failed_with(&end, ErrorCode::TargetRejected, "may call");
    assert_eq!(functions.number("SELECT count(*) FROM jobs.calls").await, 1);
    functions.until_left_alone().await;
    functions.client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// The same address for somebody else.
fn with_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{user}@{host}")
}

/// A name without a schema is looked for along the role's search path, and nowhere else.
#[tokio::test]
async fn b12_a_name_without_a_schema_is_found_along_the_search_path() {
    let database_path =
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = jobs, other', current_database()); END $$;";
    let script = [
        "CREATE SCHEMA other;".to_owned(),
        answering("first()", GOOD),
        "CREATE FUNCTION other.first() RETURNS jsonb LANGUAGE sql AS $$ SELECT NULL::jsonb $$;".to_string(),
        database_path.to_owned(),
    ];
    let functions = Functions::new(&script.concat()).await;
    assert_eq!(functions.call("first").await.outcome, Outcome::Completed);
    failed_with(&functions.call("now").await, ErrorCode::TargetError, "there is no function now");
}

#[tokio::test]
async fn b12_limits_hold_on_the_server() {
    let script = [
        "CREATE TABLE jobs.held (n integer); CREATE TABLE jobs.done (n integer);".to_owned(),
        doing("sleeps()", &format!("PERFORM pg_sleep(3600); RETURN {GOOD};")),
        doing("waits()", &format!("LOCK TABLE jobs.held; RETURN {GOOD};")),
        doing("does_not_wait()", &format!("LOCK TABLE jobs.held NOWAIT; RETURN {GOOD};")),
    ];
    let functions = Functions::with(&script.concat(), |connection| {
        connection.statement_timeout = Some(Duration::from_millis(300));
        connection.lock_timeout = Duration::from_millis(100);
    })
    .await;
    failed_with(&functions.call("jobs.sleeps").await, ErrorCode::Timeout, "statement timeout of 300ms");
    let mut holder = functions.database.connect().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE jobs.held").await.unwrap();
    failed_with(&functions.call("jobs.waits").await, ErrorCode::Timeout, "for a lock");
    failed_with(&functions.call("jobs.does_not_wait").await, ErrorCode::TargetError, "55P03");
    held.rollback().await.unwrap();
    assert_eq!(functions.call("jobs.waits").await.outcome, Outcome::Completed);
    functions.until_left_alone().await;
}

/// Cancel, timeout and a node that may do nothing any more: the server stops, and nothing of the call is kept.
#[tokio::test]
async fn b12_a_stopped_call_is_stopped_on_the_server_too() {
    let script = [
        "CREATE TABLE jobs.done (n integer);".to_owned(),
        doing("works()", &format!("INSERT INTO jobs.done VALUES (1); PERFORM pg_sleep(3600); RETURN {GOOD};")),
        doing(
            "stubborn()",
            &format!(
                "LOOP BEGIN PERFORM pg_sleep(3600); EXCEPTION WHEN query_canceled THEN
                 RAISE WARNING 'never mind'; END; END LOOP; RETURN {GOOD};"
            ),
        ),
    ];
    let functions = Arc::new(Functions::new(&script.concat()).await);
    for (reason, outcome, code) in [
        (StopReason::Cancelled, Outcome::Cancelled, None),
        (StopReason::Timeout, Outcome::Failed, Some(ErrorCode::Timeout)),
        (StopReason::Shutdown, Outcome::Failed, Some(ErrorCode::Interrupted)),
    ] {
        let by_hand = ByHand::default();
        let (context, calling) = (by_hand.context(job("jobs.works", "{}")), Arc::clone(&functions));
        let run = tokio::spawn(async move { calling.executor.run(context).await });
        functions.until("wait_event = 'PgSleep'", 1).await;
        by_hand.tell(reason);
        let end = run.await.unwrap();
        assert_eq!((end.outcome, end.error_code), (outcome, code), "{end:?}");
        functions.until_left_alone().await;
    }
    // Who is dropped without a word, as a fenced run is, takes his work along; even if it does not want to stop.
    for name in ["jobs.works", "jobs.stubborn"] {
        let (context, calling) = (ByHand::default().context(job(name, "{}")), Arc::clone(&functions));
        let run = tokio::spawn(async move { calling.executor.run(context).await });
        functions.until("wait_event = 'PgSleep'", 1).await;
        run.abort();
        run.await.unwrap_err();
        functions.until_left_alone().await;
    }
    assert_eq!(functions.number("SELECT count(*) FROM jobs.done").await, 0, "what was stopped has no effect");
}

#[tokio::test]
async fn c13_a_function_that_kills_its_own_backend_fails_its_run_and_no_other() {
    let script = [
        doing("suicide()", &format!("PERFORM pg_terminate_backend(pg_backend_pid()); RETURN {GOOD};")),
        answering("fine()", GOOD),
    ];
    let functions = Functions::new(&script.concat()).await;
    failed_with(&functions.call("jobs.suicide").await, ErrorCode::TargetError, "57P01");
    assert_eq!(functions.call("jobs.fine").await.outcome, Outcome::Completed);
    functions.until_left_alone().await;
}

#[tokio::test]
async fn b02_notices_are_lines_of_the_log() {
    let body = format!("RAISE NOTICE E'first\\nsecond'; RAISE WARNING 'careful'; RAISE DEBUG 'unsaid'; RETURN {GOOD};");
    let functions = Functions::new(&doing("talks()", &body)).await;
    let by_hand = ByHand::default();
    let end = functions.executor.run(by_hand.context(job("jobs.talks", "{}"))).await;
    assert_eq!(end.outcome, Outcome::Completed);
    let lines = [
        (LogStream::Stdout, "NOTICE: first".to_owned()),
        (LogStream::Stdout, "second".to_owned()),
        (LogStream::Stderr, "WARNING: careful".to_owned()),
    ];
    assert_eq!(by_hand.reports.lines(), lines);
}

/// A function that claims to be stable is called once all the same; effects of a failed one are gone.
#[tokio::test]
async fn b02_a_function_is_called_once_and_its_effects_stand_or_fall_with_it() {
    let script = [
        "CREATE TABLE jobs.calls (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED); CREATE SEQUENCE jobs.count;"
            .to_owned(),
        format!(
            "CREATE FUNCTION jobs.stable() RETURNS jsonb LANGUAGE plpgsql STABLE AS $f$
                 BEGIN PERFORM nextval('jobs.count'); RETURN {GOOD}; END $f$;"
        ),
        doing("fails()", "INSERT INTO jobs.calls VALUES (1); RAISE EXCEPTION 'no';"),
        doing("fails_late()", &format!("INSERT INTO jobs.calls VALUES (2), (2); RETURN {GOOD};")),
        doing("says_no()", r#"INSERT INTO jobs.calls VALUES (3); RETURN '{"success": false, "message": "no"}';"#),
    ];
    let functions = Functions::new(&script.concat()).await;
    assert_eq!(functions.call("jobs.stable").await.outcome, Outcome::Completed);
    assert_eq!(functions.number("SELECT last_value FROM jobs.count").await, 1);
    failed_with(&functions.call("jobs.fails").await, ErrorCode::TargetError, "no (P0001)");
    failed_with(&functions.call("jobs.fails_late").await, ErrorCode::TargetError, "23505");
    assert_eq!(functions.number("SELECT count(*) FROM jobs.calls").await, 0);
    failed_with(&functions.call("jobs.says_no").await, ErrorCode::TargetError, "no");
    assert_eq!(functions.number("SELECT count(*) FROM jobs.calls").await, 1, "who answers has had his effect");
}

#[tokio::test]
async fn b12_a_connection_that_cannot_be_made_says_so_without_its_password() {
    for (url, says) in [
        ("postgres://me:canary7f3a@127.0.0.1:1/db", "the connection cannot be made"),
        ("mysql://me:canary7f3a@127.0.0.1/db", "address"),
    ] {
        let connection = SqlConnection::new(Arc::new(move || Ok(Secret::new(url))));
        let by_hand = ByHand::default();
        let end = FunctionExecutor::new(connection).run(by_hand.context(job("jobs.f", "{}"))).await;
        failed_with(&end, ErrorCode::TargetError, says);
        assert!(!end.error.unwrap().contains("canary7f3a"));
        assert!(by_hand.hidden().contains(&url.to_owned()), "the address is kept from view as a whole");
    }
    assert!(check_address("postgres://me@host/db").is_ok());
    assert!(check_address("mysql://me@host/db").is_err());
    let statement = NewJob::new(Target::Sql(Sql::statement("main", "a.sql")));
    let connection = SqlConnection::new(Arc::new(|| Ok(Secret::new("postgres://h/db"))));
    let end = FunctionExecutor::new(connection).run(ByHand::default().context(statement)).await;
    failed_with(&end, ErrorCode::TargetRejected, "name a function");
}
