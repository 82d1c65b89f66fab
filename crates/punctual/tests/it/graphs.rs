//! Graphs from end to end with real processes: workers, execution services and their deaths, counted at the provider.

use crate::process::{Ear, Setup, Worker};
use crate::serve::{Server, punctual};
use crate::world::{World, on_both_stores};
use punctual_core::execution::Execution;
use punctual_core::grant::NewGrant;
use punctual_core::id::{GrantId, SlotKey};
use punctual_core::job::{JobState, NewJob};
use punctual_core::json::Json;
use punctual_core::name::Name;
use punctual_core::retry::RetryPolicy;
use punctual_core::schedule::{Missed, ScheduleDefinition};
use punctual_core::target::{Graph, Target};
use punctual_core::timing::TimingSpec;
use punctual_server::{AppState, ServiceAccess, Settings};
use punctual_testkit::graphs::CountingGraphs;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Says on which store this process is to be an execution service, when a test has started it for that.
const SERVICE_ON: &str = "PUNCTUAL_TEST_SERVICE";

/// The folder of its provider.
const COUNTED_IN: &str = "PUNCTUAL_TEST_COUNTED_IN";

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// An execution service in a process of its own, killed when it is dropped.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    /// Starts the calling test once more, as a service, and waits until it serves.
    fn start(test: &str, world: &World, counted_in: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("graphs::{test}"), "--nocapture"])
            .env(SERVICE_ON, &world.url)
            .env(COUNTED_IN, counted_in)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The harness may have begun the line.
        let said = lines.find_map(|line| Some(line.split_once("serving ")?.1.to_owned())).expect("it serves");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: said.parse().unwrap() }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks for a run; what came back, if anything did.
    async fn ask(address: SocketAddr, key: &str, grant: GrantId, input: &Value) -> Option<(u16, Value)> {
        let body = json!({ "executionGrantId": grant, "input": input }).to_string();
        let request = format!(
            "POST /api/internal/graphs/counting:a/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {SECRET}\r\nIdempotency-Key: {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// What a process does that was started as a service, until it is killed.
async fn serve_if_asked() {
    let Ok(url) = std::env::var(SERVICE_ON) else { return };
    let provider = CountingGraphs::new(Path::new(&std::env::var(COUNTED_IN).unwrap()));
    let settings = Settings {
        service_access: ServiceAccess::with_secrets(&[SECRET]).unwrap(),
        service_rate: std::num::NonZeroU32::new(10_000).unwrap(),
        execution_lease: Duration::from_secs(1),
        ..Settings::default()
    };
    let store = punctual::open(&url).await.unwrap();
    let state = AppState::new(store, settings);
    state.add_provider(Arc::new(provider));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("serving {}", listener.local_addr().unwrap());
    punctual_server::serve(listener, state, std::future::pending()).await.unwrap();
    std::process::exit(1);
}

/// One address before several services, some of which may be dead.
struct Front {
    address: SocketAddr,
    behind: Arc<Mutex<Vec<SocketAddr>>>,
    task: JoinHandle<()>,
}

impl Front {
    async fn before(services: &[Service]) -> Self {
        let behind = Arc::new(Mutex::new(services.iter().map(|service| service.address).collect::<Vec<_>>()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let known = Arc::clone(&behind);
        let task = tokio::spawn(async move {
            for turn in 0usize.. {
                let Ok((mut from, _)) = listener.accept().await else { return };
                let to = {
                    let known = known.lock().unwrap();
                    known[turn % known.len()]
                };
                tokio::spawn(async move {
                    // A dead one breaks the connection, as it would without anybody between.
                    if let Ok(mut to) = TcpStream::connect(to).await {
                        let _broken = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Self { address, behind, task }
    }

    fn put(&self, place: usize, service: &Service) {
        self.behind.lock().unwrap()[place] = service.address;
    }

    /// What a worker needs to know.
    fn setup(&self) -> Setup {
        let env =
            [("INTERNAL_API_URL", format!("http://{}", self.address)), ("PUNCTUAL_SERVICE_SECRETS", SECRET.into())];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Setup { log: "warn", env, ..Setup::default() }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn grant(world: &World) -> GrantId {
    let grant = NewGrant {
        owner: "ada".into(),
        billing_account: "acme".into(),
        scopes: vec!["graph:execute:*".parse().unwrap()],
        expires_at: None,
        max_runs: None,
        rate: None,
    };
    world.store.create_grant(grant).await.unwrap().id
}

fn job(grant: GrantId, input: &Value) -> NewJob {
    let retry = RetryPolicy { max_attempts: 5, base: jiff::SignedDuration::from_millis(10), ..RetryPolicy::default() };
    NewJob {
        grant_id: Some(grant),
        owner: Some("ada".into()),
        input: Json::from_value("input", input).unwrap(),
        retry,
        ..NewJob::new(Target::Graph(Graph { id: "counting:a".into() }))
    }
}

/// Waits for something that another process does.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never seen: {what}");
}

async fn execution(world: &World, key: &str) -> Execution {
    world.store.execution(key).await.unwrap().unwrap_or_else(|| panic!("nothing was asked for under {key}"))
}

/// The service dies while the run is under way, and right after it was charged.
async fn killed_and_asked_again(world: &World, test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let provider = CountingGraphs::new(folder.path());
    let grant = grant(world).await;
    for (number, ms) in [(1, 700), (2, 0)] {
        let (key, input) = (format!("slot {number}"), json!({ "ms": ms }));
        let mut service = Service::start(test, world, folder.path());
        let address = service.address;
        let first = tokio::spawn({
            let (key, input) = (key.clone(), input.clone());
            async move { Service::ask(address, &key, grant, &input).await }
        });
        until("the run", || if ms > 0 { provider.runs() == number } else { provider.charges() == number }).await;
        service.kill();
        let _lost_or_not = first.await.unwrap();
        let again = Service::start(test, world, folder.path());
        let (status, answer) = Service::ask(again.address, &key, grant, &input).await.expect("it answers");
        assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{answer}");
        assert_eq!((provider.runs(), provider.charges()), (number, number), "one run and one charge");
        let run = execution(world, &key).await.run_id;
        assert_eq!(answer["runId"], json!(run));
        assert_eq!(world.store.receipts(run).await.unwrap().len(), 2, "one set of receipts");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_a_service_killed_before_its_answer_runs_and_charges_once_on_sqlite() {
    serve_if_asked().await;
    let world = World::on_sqlite().await;
    killed_and_asked_again(&world, "a13_a_service_killed_before_its_answer_runs_and_charges_once_on_sqlite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_a_service_killed_before_its_answer_runs_and_charges_once_on_postgres() {
    serve_if_asked().await;
    let world = World::on_postgres().await;
    killed_and_asked_again(&world, "a13_a_service_killed_before_its_answer_runs_and_charges_once_on_postgres").await;
}

/// A worker of its own, a service of its own: what is told about a run, and what a received failure means for the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_a_worker_runs_graphs_through_the_service_and_a_retry_of_a_failure_is_a_new_run() {
    serve_if_asked().await;
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let provider = CountingGraphs::new(folder.path());
    let test = "a11_a_worker_runs_graphs_through_the_service_and_a_retry_of_a_failure_is_a_new_run";
    let service = Service::start(test, &world, folder.path());
    let front = Front::before(std::slice::from_ref(&service)).await;
    let grant = grant(&world).await;
    // The first run fails; asked the first time, nobody knows what became of it.
    let failing = job(grant, &json!({ "fail_first": 1, "unknown": 1 }));
    let id = world.store.enqueue_jobs(vec![failing]).await.unwrap()[0];
    let ear = Ear::new();
    let _worker = Worker::start_as(&world.url, &front.setup(), &ear);
    world.until_open(0).await;
    let last = world.store.chain_end(id).await.unwrap().unwrap();
    assert_eq!((last.state(), last.job.attempt, last.job.failures), (JobState::Completed, 2, 1));
    assert_eq!((provider.runs(), provider.charges(), provider.asked()), (2, 2, 4));
    let (failed, done) =
        (execution(&world, &format!("job:{id}")).await, execution(&world, &format!("job:{id}:1")).await);
    assert_ne!(failed.run_id, done.run_id);
    assert_eq!(failed.service.as_deref(), Some("punctual-worker"));
    let output: Value = last.run().unwrap().output.as_ref().unwrap().to().unwrap();
    assert_eq!(output["run_id"], json!(done.run_id));
    assert_eq!(output["trace_id"], json!(done.trace_id));
    assert_eq!(
        (&output["thread_id"], &output["output"]),
        (&json!(format!("thread-{}", done.run_id)), &json!({ "done": true }))
    );
    assert_eq!(failed.trace_id, done.trace_id, "one trace for the whole chain");
    // What is revoked between the two looks is seen by the second, and charged to nobody.
    world.store.revoke_grant(grant).await.unwrap();
    let refused = world.store.enqueue_jobs(vec![job(grant, &json!({}))]).await.unwrap()[0];
    world.until_open(0).await;
    let run = world.store.run(refused).await.unwrap().unwrap();
    assert_eq!(run.error_code.unwrap().as_str(), "grant_revoked");
    assert_eq!(provider.runs(), 2);
    drop(service);
}

/// Slot to charge: two workers and two services, of which one dies every moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a14_every_slot_is_one_graph_run_and_one_set_of_receipts_whoever_is_killed() {
    serve_if_asked().await;
    let test = "a14_every_slot_is_one_graph_run_and_one_set_of_receipts_whoever_is_killed";
    let world = World::on_postgres().await;
    let folder = tempfile::tempdir().unwrap();
    let provider = CountingGraphs::new(folder.path());
    let mut services = vec![Service::start(test, &world, folder.path()), Service::start(test, &world, folder.path())];
    let front = Front::before(&services).await;
    let (ear, setup) = (Ear::new(), front.setup());
    let mut workers: Vec<Worker> = (0..2).map(|_| Worker::start_as(&world.url, &setup, &ear)).collect();
    let grant = grant(&world).await;
    let retry = RetryPolicy { max_attempts: 50, max_interruptions: 50, ..job(grant, &json!({})).retry };
    let timing = TimingSpec::cron("@every 1s", "UTC");
    let graph = Target::Graph(Graph { id: "counting:a".into() });
    let definition = ScheduleDefinition {
        grant_id: Some(grant),
        owner: Some("ada".into()),
        input: Json::from_value("input", &json!({ "ms": 200 })).unwrap(),
        missed: Missed::All { limit: 1000, window: None },
        retry,
        ..ScheduleDefinition::new(Name::new("graph").unwrap(), timing, graph)
    };
    let schedule = world.store.create_schedule(definition).await.unwrap().id;
    for kill in 0..6 {
        // Not before something has gone on since the last one, so that the kills meet work.
        let runs = provider.runs();
        until("a run", || provider.runs() > runs).await;
        // Whom it meets, and in which moment of the work, is left to chance; that both kinds are met is not.
        let chance = uuid::Uuid::new_v4().as_u128();
        let place = usize::from(chance % 2 == 1);
        tokio::time::sleep(Duration::from_millis(u64::try_from(chance / 2 % 400).unwrap())).await;
        if kill % 2 == 0 {
            services[place].kill();
            services[place] = Service::start(test, &world, folder.path());
            front.put(place, &services[place]);
        } else {
            workers[place].kill();
            workers[place] = Worker::start_as(&world.url, &setup, &ear);
        }
    }
    world.come_to_rest().await;
    let slots = world.store.slots(schedule, None, 10_000).await.unwrap();
    let fired: Vec<_> = slots.iter().filter(|slot| slot.job_id.is_some()).collect();
    assert!(fired.len() >= 6, "{} slots", fired.len());
    assert_eq!((provider.runs(), provider.charges()), (fired.len(), fired.len()), "as the provider counts");
    for slot in fired {
        let last = world.store.chain_end(slot.job_id.unwrap()).await.unwrap().unwrap();
        assert_eq!(last.state(), JobState::Completed, "{:?}", last.run());
        let key = SlotKey { schedule_id: schedule, slot_at: slot.slot_at }.to_string();
        let run = execution(&world, &key).await.run_id;
        assert_eq!(world.store.receipts(run).await.unwrap().len(), 2, "one set of receipts for {key}");
        let output: Value = last.run().unwrap().output.as_ref().unwrap().to().unwrap();
        assert_eq!(output["run_id"], json!(run), "the two ledgers meet in the run's id");
    }
    let receipts = world.number("SELECT count(*) FROM {charge_receipts}").await;
    assert_eq!(usize::try_from(receipts), Ok(2 * provider.runs()));
}

/// The server's own worker calls its own service, by a secret that is nobody else's.
#[test]
fn a12_a_server_makes_its_own_secret_and_its_worker_uses_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let server = Server::on(&["--data", data]);
    let secret = folder.path().join("service.secret");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&secret).unwrap();
    let run = |args: &[&str]| {
        let output = punctual(&[args, &["--data", data]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    let nodes = run(&["node", "ls", "--json"]);
    assert!(nodes["items"][0]["offers"].as_array().unwrap().contains(&json!("graph")), "{nodes}");
    let grant = run(&["grant", "add", "--account", "acme", "--json"])["id"].as_str().unwrap().to_owned();
    let add = ["job", "add", "--graph", "nowhere:a", "--grant", &grant, "--attempts", "1", "--json"];
    let id = run(&add)["id"].as_str().unwrap().to_owned();
    let ended = loop {
        let job = run(&["job", "show", &id, "--json"]);
        if job["state"] == "failed" {
            break job;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended["run"]["error_code"], "no_executor", "{ended}");
    let refused = punctual(&["graph", "run", "nowhere:a", "--data", data]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no provider `nowhere:`"));
    drop(server);
    let again = Server::on(&["--data", data]);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), kept, "it stays the same");
    drop(again);
}

on_both_stores! {
    /// A rate is waited for, and is no failure.
    async fn a19_a_job_under_a_grant_that_is_too_fast_waits_and_is_not_charged(world: &World) {
        let rate = punctual_core::limits::Rate { jobs: 1, per: jiff::SignedDuration::from_secs(1), burst: 1 };
        let new = NewGrant {
            owner: "ada".into(),
            billing_account: "acme".into(),
            scopes: vec!["graph:execute:*".parse().unwrap()],
            expires_at: None,
            max_runs: None,
            rate: Some(rate),
        };
        let grant = world.store.create_grant(new).await.unwrap().id;
        let folder = tempfile::tempdir().unwrap();
        let provider = CountingGraphs::new(folder.path());
        // The service in this process, the worker in its own.
        let access = ServiceAccess::with_secrets(&[SECRET]).unwrap();
        let state = AppState::new(Arc::clone(&world.store), Settings { service_access: access, ..Settings::default() });
        state.add_provider(Arc::new(provider.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(punctual_server::serve(listener, state, async { drop(stopped.await) }));
        let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        let two = vec![NewJob { retry: once, ..job(grant, &json!({})) }; 2];
        let ids = world.store.enqueue_jobs(two).await.unwrap();
        let ear = Ear::new();
        let env = [("INTERNAL_API_URL", format!("http://{address}")), ("PUNCTUAL_SERVICE_SECRETS", SECRET.into())];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let worker = Worker::start_as(&world.url, &Setup { log: "warn", env, ..Setup::default() }, &ear);
        world.until_open(0).await;
        for id in ids {
            let last = world.store.chain_end(id).await.unwrap().unwrap();
            assert_eq!((last.state(), last.job.failures), (JobState::Completed, 0), "{:?}", last.run());
        }
        assert_eq!((provider.runs(), provider.charges()), (2, 2));
        drop(worker);
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
    }
}
