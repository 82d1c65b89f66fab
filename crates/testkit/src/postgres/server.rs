//! The server: found, set up in a temporary folder, started once, and stopped when nobody uses it any more.

use super::authority::Certificate;
use crate::harness::fast_folder;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to answer; far above what any needs on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the server, and stops it as soon as nobody holds `users.lock` any more. Whoever wants to use it takes
/// `start.lock` first, so that nobody comes in while it stops.
const UNTIL_UNUSED: &str = r#"
    root=$1; cluster=$2; shift 2
    "$@" </dev/null & server=$!
    while sleep 3; do
      kill -0 $server 2>/dev/null || break
      flock -x "$root/start.lock" sh -c '
        flock -n -x "$1/users.lock" true || exit 1
        rm -f "$1/url"; kill -QUIT "$2"' reaper "$root" $server && break
    done
    wait $server
    rm -rf "$cluster"
"#;

/// Starts the server, starts it again whenever it is told to, and stops it as soon as the pipe at its input is closed:
/// when the process that holds the other end is done, in whatever way.
const UNTIL_THE_PIPE_CLOSES: &str = r#"
    cluster=$2; shift 2
    "$@" </dev/null & server=$!
    while read -r _; do
      wait $server
      "$@" </dev/null & server=$!
    done
    kill -QUIT $server; wait $server
    rm -rf "$cluster"
"#;

/// The address of the server that all tests share, ending with a slash: a database's name goes behind it.
pub(super) fn shared_address() -> &'static str {
    static ADDRESS: OnceLock<(String, Option<File>)> = OnceLock::new();
    let (address, _in_use) = ADDRESS.get_or_init(|| {
        let given = ["PUNCTUAL_TEST_POSTGRES", "DATABASE_URL"].iter().find_map(|name| std::env::var(name).ok());
        if let Some(url) = given.filter(|url| url.starts_with("postgres")) {
            return (without_database(&url), None);
        }
        let (address, users) = use_shared_server();
        (address, Some(users))
    });
    address
}

/// An address up to the slash behind its hosts.
fn without_database(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("an address has a scheme");
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    format!("{scheme}://{hosts}/")
}

/// Starts the shared server unless it runs, and holds on to it for as long as this process lives.
fn use_shared_server() -> (String, File) {
    let root = shared_root();
    std::fs::create_dir_all(&root).expect("a folder for the server can be made");
    let open = |name: &str| {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(root.join(name));
        file.expect("a lock file can be made")
    };
    let (start, users) = (open("start.lock"), open("users.lock"));
    start.lock().expect("the server is started by one process at a time");
    users.lock_shared().expect("the server can be used");
    let address = match std::fs::read_to_string(root.join("url")) {
        Ok(address) if answers(&address) => address,
        _ => {
            let (cluster, _keeper) = started(|| Cluster::new(&root, false), UNTIL_UNUSED, Stdio::null);
            std::fs::write(root.join("url"), &cluster.address).expect("the address can be kept");
            cluster.address
        }
    };
    (address, users)
}

/// A server that answers. The port that was free a moment ago may have been taken meanwhile, for example by a connection
/// of another test: then the server ends at once, and another one is made.
fn started(make: impl Fn() -> Cluster, script: &str, stdin: impl Fn() -> Stdio) -> (Cluster, Child) {
    for _ in 0..5 {
        let cluster = make();
        let mut keeper = cluster.spawn(script, stdin());
        if cluster.comes_up(&mut keeper) {
            return (cluster, keeper);
        }
    }
    panic!("no server stays up");
}

/// One folder for each user and each checkout, so that nobody stops what somebody else uses.
fn shared_root() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    let key = hasher.finish() & 0xffff_ffff;
    fast_folder().join(format!("punctual-pg-{}-{key:08x}", user_id()))
}

fn user_id() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}

fn answers(address: &str) -> bool {
    let host = address.rsplit('@').next().unwrap_or_default().trim_end_matches('/');
    TcpStream::connect(host).is_ok()
}

/// A server of one's own, for tests that stop it or want it durable; it ends with this process at the latest.
#[derive(Debug)]
pub struct PrivateServer {
    cluster: Cluster,
    guard: Option<ChildStdin>,
    keeper: Child,
}

impl PrivateServer {
    /// Starts one. A durable one writes to the disk before it answers, as a real one does.
    pub fn start(durable: bool) -> Self {
        Self::start_with(durable, &[])
    }

    /// Starts one with more in its environment, such as another clock.
    pub fn start_with(durable: bool, env: &[(String, String)]) -> Self {
        let root = if durable { std::env::temp_dir() } else { fast_folder() };
        Self::run(|| Cluster { env: env.to_vec(), ..Cluster::new(&root, durable) })
    }

    /// Starts one that speaks TLS to whoever wants it.
    pub fn start_with_tls(certificate: &Certificate) -> Self {
        Self::run(|| {
            let mut cluster = Cluster::new(&fast_folder(), false);
            certificate.install(&cluster.folder, cluster.programs.owner);
            let file = |name: &str| cluster.folder.join(name).display().to_string();
            let (certificate, key) = (file("server.pem"), file("server.key"));
            cluster.extra =
                vec!["ssl=on".to_owned(), format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")];
            cluster
        })
    }

    fn run(make: impl Fn() -> Cluster) -> Self {
        let (cluster, mut keeper) = started(make, UNTIL_THE_PIPE_CLOSES, Stdio::piped);
        let guard = keeper.stdin.take();
        Self { cluster, guard, keeper }
    }

    /// Stops the server as a power cut would: no connection is ended in order, and nothing more is written.
    pub fn stop_immediately(&self) {
        let mut stop = self.cluster.programs.command("pg_ctl");
        stop.args(["stop", "-w", "-m", "immediate", "-D"]).arg(self.cluster.folder.join("data"));
        let done = stop.output().expect("pg_ctl can be run");
        assert!(done.status.success(), "pg_ctl failed: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Starts it again after it was stopped, and waits until it answers.
    pub fn start_again(&mut self) {
        let keeper = self.guard.as_mut().expect("the pipe is open until the server is dropped");
        std::io::Write::write_all(keeper, b"start\n").expect("the keeper listens");
        self.cluster.wait();
    }

    /// The address of a database on it.
    pub fn url(&self, database: &str) -> String {
        format!("{}{database}", self.cluster.address)
    }

    /// The folder with its data and its socket.
    pub fn folder(&self) -> &Path {
        &self.cluster.folder
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.guard.take());
        // Its folder is gone when the keeper is.
        let _gone = self.keeper.wait();
    }
}

/// A folder that was set up for a server, and how it is reached.
#[derive(Debug)]
struct Cluster {
    root: PathBuf,
    folder: PathBuf,
    programs: Programs,
    port: u16,
    durable: bool,
    /// Settings of this server alone.
    extra: Vec<String>,
    address: String,
    /// What the server has in its environment besides.
    env: Vec<(String, String)>,
}

impl Cluster {
    fn new(root: &Path, durable: bool) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!("punctual-pg-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the server can be made");
        let programs = Programs::find();
        if let Some((uid, gid)) = programs.owner {
            chown(&folder, Some(uid), Some(gid)).expect("the folder can be given to the server's user");
        }
        let port = free_port();
        let address = format!("postgres://postgres@127.0.0.1:{port}/");
        let (extra, env) = (Vec::new(), Vec::new());
        let cluster = Self { root: root.to_owned(), folder, programs, port, durable, extra, address, env };
        cluster.init();
        cluster
    }

    fn init(&self) {
        let mut initdb = self.programs.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
        let done = initdb.arg("-D").arg(self.folder.join("data")).output().expect("initdb can be run");
        assert!(done.status.success(), "initdb failed: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Starts the server below a script that knows when to stop it.
    fn spawn(&self, script: &str, stdin: Stdio) -> Child {
        let log = File::create(self.folder.join("server.log")).expect("a log can be made");
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "keeper"]).arg(&self.root).arg(&self.folder);
        // Behind the change of the user: a library that is preloaded before it would keep files of the wrong one.
        let (first, rest) = self.programs.prefix_and("postgres", &self.env);
        shell.arg(first).args(rest);
        shell.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder).args(["-p", &self.port.to_string()]);
        for setting in SETTINGS.iter().chain(if self.durable { &[] } else { FAST }) {
            shell.args(["-c", setting]);
        }
        for setting in &self.extra {
            shell.args(["-c", setting]);
        }
        shell.stdin(stdin).stdout(log.try_clone().expect("the log can be shared")).stderr(log);
        // A group of its own: whoever ends the test's group must not end the server of other tests.
        shell.process_group(0).spawn().expect("a shell can be started")
    }

    fn wait(&self) {
        let begun = Instant::now();
        while !self.is_ready() {
            assert!(begun.elapsed() < PATIENCE, "the server does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the server answers; false when it has ended instead. An answer on its port alone is no sign of it: that
    /// may be somebody else's.
    fn comes_up(&self, keeper: &mut Child) -> bool {
        let begun = Instant::now();
        while !(self.log().contains("listening on IPv4") && self.is_ready()) {
            assert!(begun.elapsed() < PATIENCE, "the server does not start: {}", self.log());
            let gone = keeper.try_wait().is_ok_and(|ended| ended.is_some());
            if gone || self.log().contains("could not create any TCP/IP sockets") {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    fn is_ready(&self) -> bool {
        let mut ready = self.programs.command("pg_isready");
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"]);
        ready.status().is_ok_and(|status| status.success())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default()
    }
}

const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "max_connections=400",
    "max_locks_per_transaction=256",
    "shared_buffers=128MB",
    // A deadlock is a conflict like another in these tests, and is not to cost a second.
    "deadlock_timeout=100ms",
    "log_min_messages=warning",
    "timezone=UTC",
];

/// What makes a server forget everything when its machine stops, and therefore fast.
const FAST: &[&str] = &[
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=128MB",
    "min_wal_size=32MB",
];

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Where the server's programs are, and as whom they are run.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    /// The user the server runs as when this is root, because it refuses to run as root.
    owner: Option<(u32, u32)>,
}

impl Programs {
    /// Looks in `PG_BIN`, in Debian's folders, newest first, and in PATH.
    pub fn find() -> Self {
        let folder = Self::folders().into_iter().find(|folder| folder.join("initdb").is_file());
        let folder = folder.expect("PostgreSQL is not installed: run `cargo xtask deps`, or set PG_BIN to its folder");
        let owner = (user_id() == 0).then(|| (id_of("-u"), id_of("-g")));
        Self { folder, owner }
    }

    fn folders() -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = std::env::var_os("PG_BIN").map(PathBuf::from).into_iter().collect();
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
        versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
        folders.extend(versions.into_iter().rev().map(|version| version.join("bin")));
        let path = std::env::var_os("PATH").unwrap_or_default();
        folders.extend(std::env::split_paths(&path));
        folders
    }

    /// Where one of the programs is, for whoever may run it.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// A command that runs one of the programs as the user who may.
    pub fn command(&self, program: &str) -> Command {
        let (first, rest) = self.prefix_and(program, &[]);
        let mut command = Command::new(first);
        command.args(rest);
        command
    }

    /// The words of such a command, with more in its environment.
    fn prefix_and(&self, program: &str, env: &[(String, String)]) -> (String, Vec<String>) {
        let program = self.folder.join(program).to_string_lossy().into_owned();
        if env.is_empty() {
            return as_owner(self.owner, program);
        }
        let (first, mut rest) = as_owner(self.owner, "env".to_owned());
        rest.extend(env.iter().map(|(name, value)| format!("{name}={value}")));
        rest.push(program);
        (first, rest)
    }
}

/// What runs a program as somebody else, when this is root.
pub(super) fn as_owner(owner: Option<(u32, u32)>, program: String) -> (String, Vec<String>) {
    match owner {
        None => (program, Vec::new()),
        Some((uid, gid)) => {
            let words =
                [format!("--reuid={uid}"), format!("--regid={gid}"), "--init-groups".into(), "--".into(), program];
            ("setpriv".to_owned(), words.into())
        }
    }
}

/// The server's user, when this is root.
pub(super) fn owner() -> Option<(u32, u32)> {
    (user_id() == 0).then(|| (id_of("-u"), id_of("-g")))
}

fn id_of(which: &str) -> u32 {
    let found = Command::new("id").args([which, "postgres"]).output().expect("id can be run");
    let number = String::from_utf8_lossy(&found.stdout).trim().parse().ok();
    number.expect("there is a user named postgres: the package that brings the server makes it")
}
