//! A real worker that calls: what its options allow, what misbehaves on the other side, and secrets that stay secret.

use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::job::{NewJob, Run, Timeout};
use punctual_core::json::Json;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::secret::{SecretRef, Value};
use punctual_core::target::{Body, Command, Http, Sql, Target};
use punctual_testkit::postgres::Database;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A worker process with options; killed when it is dropped, so that a failing test leaves nothing behind.
struct Worker {
    child: Child,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Worker {
    fn start(world: &World, args: &[String], env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["worker", "--database", &world.url, "--heartbeat", "100ms", "--lease", "10s", "--concurrency", "4"])
            .args(args)
            .envs(env.iter().copied())
            .env("PUNCTUAL_LOG", "trace")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready"), "{line:?}: {}", std::fs::read_to_string(&log).unwrap());
        Self { child, log, _folder: folder }
    }

    /// Everything the worker has said about itself.
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// What a worker says that does not start, and with which code it ends.
fn refusal(world: &World, args: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"));
    let ended = command.args(["worker", "--database", &world.url]).args(args).output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{args:?}");
    String::from_utf8(ended.stderr).unwrap()
}

/// A web server that repeats what it was sent, on a thread of its own.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).unwrap_or(0);
            let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let answer = format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n{said}", said.len());
            let _gone = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn job(target: Target) -> NewJob {
    let timeout = Timeout::After(SignedDuration::from_secs(60));
    NewJob { retry: RetryPolicy::none(), timeout, ..NewJob::new(target) }
}

impl World {
    async fn enqueue(&self, job: NewJob) -> JobId {
        self.store.enqueue_jobs(vec![job]).await.unwrap()[0]
    }

    async fn end_of(&self, id: JobId) -> Run {
        loop {
            if let Some(run) = self.store.job(id).await.unwrap().unwrap().run() {
                return run.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn run(&self, target: Target) -> Run {
        let id = self.enqueue(job(target)).await;
        self.end_of(id).await
    }
}

/// A database of its own with functions that keep the contract and that do not, and a table that somebody holds.
async fn functions() -> (Database, tokio_postgres::Client) {
    let database = Database::empty().await;
    let client = database.connect().await;
    let good = r#"'{"success": true, "message": "fine"}'::jsonb"#;
    let bodies = [
        ("fine", format!("RETURN {good};")),
        ("raises", "RAISE EXCEPTION 'no money';".to_owned()),
        ("says_no", r#"RETURN '{"success": false, "message": "not today"}';"#.to_owned()),
        ("null", "RETURN NULL;".to_owned()),
        ("text", r#"RETURN '"fine"';"#.to_owned()),
        ("shape", r#"RETURN '{"ok": 1}';"#.to_owned()),
        ("locked", format!("LOCK TABLE held; RETURN {good};")),
        ("sleeps", format!("PERFORM pg_sleep(3600); RETURN {good};")),
        ("suicide", format!("PERFORM pg_terminate_backend(pg_backend_pid()); RETURN {good};")),
    ];
    let mut script = "CREATE SCHEMA jobs; CREATE TABLE held (n integer);".to_owned();
    for (name, body) in bodies {
        for part in
            ["CREATE FUNCTION jobs.", name, "() RETURNS jsonb LANGUAGE plpgsql AS $f$ BEGIN ", &body, " END $f$;"]
        {
            script.push_str(part);
        }
    }
    script += "CREATE FUNCTION jobs.wrong() RETURNS text LANGUAGE sql AS $$ SELECT 'fine' $$;";
    client.batch_execute(&script).await.unwrap();
    (database, client)
}

fn sql(function: &str) -> Target {
    Target::Sql(Sql::function("main", function))
}

on_both_stores! {
    /// HTTP, functions and statement files, each allowed by an option and refused without it.
    async fn d06_a_worker_reaches_what_its_options_allow(world: &World) {
        let (address, (database, _client)) = (echo(), functions().await);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE t (n)").unwrap();
        std::fs::write(folder.path().join("add.sql"), "INSERT INTO t VALUES (:input ->> '$.n'); SELECT n FROM t").unwrap();
        let get = Target::from(Http::new("GET", format!("http://{address}/hello")));
        let strict = Worker::start(world, &[], &[]);
        let run = world.run(get.clone()).await;
        assert_eq!(run.error_code, Some(ErrorCode::TargetRejected), "{run:?}");
        drop(strict);
        let args = [
            format!("--http-allow={address}"),
            format!("--sql-connection=main={}", database.url()),
            "--sql-allow=main=jobs.fine".to_owned(),
            format!("--sql-connection=shop=sqlite:{}", file.display()),
            format!("--sql-statements=shop={}", folder.path().display()),
        ];
        let _worker = Worker::start(world, &args, &[]);
        let run = world.run(get).await;
        assert_eq!(run.outcome, Outcome::Completed, "{run:?}");
        assert!(run.output.unwrap().as_str().contains("GET /hello HTTP/1.1"));
        let run = world.run(sql("jobs.fine")).await;
        assert_eq!(run.output.as_ref().map(Json::as_str), Some(r#"{"message": "fine", "success": true}"#), "{run:?}");
        assert_eq!(world.run(sql("jobs.raises")).await.error_code, Some(ErrorCode::TargetRejected));
        let statement = Target::Sql(Sql::statement("shop", "add.sql"));
        let id = world.enqueue(NewJob { input: Json::parse("input", r#"{"n":7}"#).unwrap(), ..job(statement) }).await;
        let run = world.end_of(id).await;
        assert_eq!(run.output.as_ref().map(Json::as_str), Some(r#"{"rows":[{"n":7}],"changes":1}"#), "{run:?}");
    }

    /// Every function that misbehaves ends as a recorded run, its neighbours are not delayed, and no connection is left.
    async fn b02_functions_that_misbehave_harm_nobody_else(world: &World) {
        let (database, mut client) = functions().await;
        let args = [format!("--sql-connection=main={}", database.url()), "--sql-allow=main=jobs.*".to_owned()];
        let mut worker = Worker::start(world, &args, &[]);
        let held = client.transaction().await.unwrap();
        held.batch_execute("LOCK TABLE held").await.unwrap();
        let hurried = |name: &str| NewJob { timeout: Timeout::After(SignedDuration::from_secs(2)), ..job(sql(name)) };
        let mut poison = Vec::new();
        for (name, code) in [
            ("jobs.locked", ErrorCode::Timeout),
            ("jobs.sleeps", ErrorCode::Timeout),
            ("jobs.raises", ErrorCode::TargetError),
            ("jobs.says_no", ErrorCode::TargetError),
            ("jobs.null", ErrorCode::BadOutput),
            ("jobs.text", ErrorCode::BadOutput),
            ("jobs.shape", ErrorCode::BadOutput),
            ("jobs.wrong", ErrorCode::BadOutput),
            ("jobs.missing", ErrorCode::TargetError),
            ("jobs.suicide", ErrorCode::TargetError),
        ] {
            poison.push((name, world.enqueue(hurried(name)).await, code));
        }
        for _ in 0..5 {
            assert_eq!(world.run(sql("jobs.fine")).await.outcome, Outcome::Completed);
        }
        for (name, id, code) in poison {
            let run = world.end_of(id).await;
            assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(code)), "{name}: {run:?}");
            assert!(run.started_at.is_some() && run.error.is_some());
        }
        held.rollback().await.unwrap();
        let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        while client.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(worker.child.try_wait().unwrap().is_none(), "the worker is alive");
    }

    /// A secret of each target, repeated by everybody it is told, appears nowhere but where it was sent.
    async fn b12_a_canary_is_nowhere_but_where_it_was_sent(world: &World) {
        const CANARY: &str = "canary-3f9d\"c1e7";
        let (address, (database, client)) = (echo(), functions().await);
        let said = "CREATE FUNCTION jobs.tell() RETURNS jsonb LANGUAGE plpgsql AS $f$ BEGIN
                    RAISE NOTICE 'canary-3f9d\"c1e7'; RAISE EXCEPTION 'canary-3f9d\"c1e7 again'; END $f$";
        client.batch_execute(said).await.unwrap();
        let url = database.url();
        let (scheme, rest) = url.split_once("://").unwrap();
        let (user, host) = rest.rsplit_once('@').unwrap_or(("postgres", rest));
        let user = user.split(':').next().unwrap();
        // The server of the tests asks for no password, and takes any.
        let with_password = format!("{scheme}://{user}:canary-3f9d%22c1e7@{host}");
        let args = ["--http-allow=127.0.0.1", "--sql-connection=main=env:MAIN_URL", "--sql-allow=main=jobs.*"];
        let env = [("CANARY", CANARY), ("MAIN_URL", with_password.as_str())];
        let worker = Worker::start(world, &args.map(str::to_owned), &env);
        let secret = SecretRef::new("env:CANARY");
        let http = Http {
            headers: BTreeMap::from([("authorization".to_owned(), Value::Secret(secret.clone()))]),
            secrets: BTreeMap::from([("token".to_owned(), secret.clone())]),
            body: Some(Body::Text("{{ secrets.token }}{{ secrets.token | tojson }}".to_owned())),
            ..Http::new("POST", format!("http://{address}/{{{{ secrets.token }}}}?t={{{{ secrets.token }}}}"))
        };
        let command = Command {
            argv: ["sh", "-c", "echo out $TOKEN; echo err $TOKEN >&2; echo \"$TOKEN\" > a; cat /proc/[0-9]*/cmdline; exit 3"]
                .map(str::to_owned)
                .to_vec(),
            env: BTreeMap::from([("TOKEN".to_owned(), Value::Secret(secret.clone()))]),
            artifacts: Some(".".to_owned()),
            ..Command::default()
        };
        let broken = Http::new("GET", format!("http://{address}:{{{{ secrets.token }}}}/"));
        let broken = Http { secrets: BTreeMap::from([("token".to_owned(), secret)]), ..broken };
        let mut told = Vec::new();
        for target in [Target::from(http), Target::from(broken), sql("jobs.fine"), sql("jobs.tell"), Target::from(command)] {
            told.push(world.run(target).await);
        }
        let [http, broken, fine, tell, command] = &told[..] else { panic!() };
        assert_eq!((http.outcome, fine.outcome), (Outcome::Completed, Outcome::Completed), "{http:?} {fine:?}");
        assert_eq!(broken.error_code, Some(ErrorCode::TargetRejected), "{broken:?}");
        assert_eq!((tell.error_code, command.exit_code), (Some(ErrorCode::TargetError), Some(3)), "{tell:?} {command:?}");
        assert!(http.output.as_ref().unwrap().as_str().contains("authorization: [secret]"), "{http:?}");
        assert!(tell.error.as_ref().unwrap().contains("[secret] again"), "{tell:?}");
        let everything = format!("{told:?}\n{}\n{}", world.dump().await, worker.log());
        for part in ["3f9d", "c1e7", &hex("3f9d"), &hex("c1e7")] {
            assert!(!everything.contains(part), "{part}: {everything}");
        }
        assert!(everything.contains("[secret]"));
        for process in std::fs::read_dir("/proc").unwrap().map(Result::unwrap) {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            assert!(!line.windows(4).any(|part| part == b"3f9d"), "{}", String::from_utf8_lossy(&line));
        }
    }
}

/// `main=store`, by options and by a file: the store's own database and role, what is allowed there and nothing else, and
/// a password that stays unsaid although it was never given with the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_functions_of_the_stores_own_database_are_called_as_the_stores_role() {
    let mut world = World::on_postgres().await;
    let client = world.database().connect().await;
    let script = "CREATE SCHEMA jobs;
        CREATE FUNCTION jobs.who() RETURNS jsonb LANGUAGE sql AS
          $$ SELECT jsonb_build_object('success', true, 'message', current_database() || ' ' || current_user) $$;
        CREATE FUNCTION jobs.tell() RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE 'it is password-9c4e'; END $$;";
    client.batch_execute(script).await.unwrap();
    let who = "SELECT current_database() || ' ' || current_user";
    let who: String = client.query_one(who, &[]).await.unwrap().get(0);
    // The server of the tests asks for no password, and takes any.
    let (scheme, rest) = world.url.split_once("://").unwrap();
    let (user, host) = rest.rsplit_once('@').unwrap_or(("postgres", rest));
    world.url = format!("{scheme}://{}:password-9c4e@{host}", user.split(':').next().unwrap());

    let args = ["--sql-connection=main=store", "--sql-allow=main=jobs.who", "--sql-allow=main=jobs.tell"];
    let worker = Worker::start(&world, &args.map(str::to_owned), &[]);
    let run = world.run(sql("jobs.who")).await;
    let output = run.output.as_ref().map(Json::as_str).unwrap_or_default();
    assert!(output.contains(&who), "{who}: {run:?}");
    let told = world.run(sql("jobs.tell")).await;
    assert!(told.error.as_ref().unwrap().contains("it is [secret]"), "{told:?}");
    assert!(!worker.log().contains("9c4e"), "{}", worker.log());
    let refused = world.run(sql("punctual_internal.make_partitions")).await;
    assert_eq!(refused.error_code, Some(ErrorCode::TargetRejected), "only what is allowed: {refused:?}");
    drop(worker);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, "sql_connections = [\"main=store\"]\nsql_allow = [\"main=jobs.who\"]\n").unwrap();
    let _worker = Worker::start(&world, &[], &[("PUNCTUAL_CONFIG", file.to_str().unwrap())]);
    assert_eq!(world.run(sql("jobs.who")).await.outcome, Outcome::Completed);
}

/// How a text looks where bytes are shown as hexadecimal digits.
fn hex(text: &str) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).expect("half a byte is a digit");
    text.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[tokio::test]
async fn d06_options_that_do_not_fit_are_refused_with_the_remedy() {
    let world = World::on_sqlite().await;
    for (args, says) in [
        (&["--http-allow=http://x"][..], "example.com"),
        (&["--sql-connection=main"], "NAME=VALUE"),
        (&["--sql-connection=main=postgres://h/db"], "--sql-allow main=SCHEMA.FUNCTION"),
        (&["--sql-connection=main=postgres://u:secret7@h/db", "--sql-allow=main=a.b"], "env:VARIABLE"),
        (&["--sql-connection=main=mysql://h/db", "--sql-allow=main=a.b"], "postgres://"),
        (&["--sql-connection=main=env:", "--sql-allow=main=a.b"], "env:NAME"),
        (&["--sql-connection=main=postgres://h/db", "--sql-allow=main=b"], "schema.function"),
        (&["--sql-connection=local=sqlite:a.db"], "--sql-statements local=DIR"),
        (&["--sql-allow=main=a.b"], "--sql-connection main=URL"),
        (&["--sql-connection=main=store", "--sql-allow=main=a.b"], "--database postgres://"),
        (&["--sql-connection=main=store"], "--sql-allow main=SCHEMA.FUNCTION"),
        (&["--sql-connection=main=store", "--sql-statements=main=."], "--sql-allow main=SCHEMA.FUNCTION"),
        (&["--secret-allow=TOKEN"], "env:NAME"),
    ] {
        let said = refusal(&world, args);
        assert!(said.contains(says) && !said.contains("secret7"), "{args:?}: {said}");
    }
}
