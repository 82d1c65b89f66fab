//! pgbouncer in transaction mode in front of a database: what many installations put there.

use super::Database;
use super::server::{as_owner, owner};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A pooler that hands out a connection for the time of a transaction.
#[derive(Debug)]
pub struct PgBouncer {
    _folder: TempDir,
    process: Child,
    url: String,
}

impl PgBouncer {
    /// Starts one with so many connections to the database.
    pub fn start(database: &Database, connections: usize) -> Self {
        Self::with(database, connections, "")
    }

    /// The same, set up to drop what clients ask for when they connect, where it would refuse it otherwise.
    pub fn swallowing_settings(database: &Database, connections: usize) -> Self {
        Self::with(database, connections, "ignore_startup_parameters = options\n")
    }

    fn with(database: &Database, connections: usize, more: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("punctual-pgb-").tempdir().expect("a folder can be made");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port is free").port();
        let config = folder.path().join("pgbouncer.ini");
        std::fs::write(&config, configuration(database, port, connections, more)).expect("it can be configured");
        if let Some((uid, gid)) = owner() {
            for path in [folder.path(), config.as_path()] {
                chown(path, Some(uid), Some(gid)).expect("the folder can be given to the server's user");
            }
        }
        let (first, rest) = as_owner(owner(), program().to_string_lossy().into_owned());
        let process = Command::new(first)
            .args(rest)
            .args(["-q"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer can be started");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "pgbouncer does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        let url = format!("postgres://postgres@127.0.0.1:{port}/{}", database.name());
        Self { _folder: folder, process, url }
    }

    /// The database, through the pooler.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _waited = self.process.wait();
    }
}

fn configuration(database: &Database, port: u16, connections: usize, more: &str) -> String {
    let url = database.url();
    let (_, rest) = url.split_once('@').expect("the address has a user");
    let (host, server_port) = rest.split('/').next().and_then(|it| it.split_once(':')).expect("and a host and a port");
    format!(
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 200\n{more}\
         [databases]\n* = host={host} port={server_port} user=postgres\n"
    )
}

/// Debian keeps it where only root's PATH looks.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push(PathBuf::from("/usr/sbin"));
    let found = folders.iter().map(|folder| folder.join("pgbouncer")).find(|program: &PathBuf| Path::is_file(program));
    found.expect("pgbouncer is not installed: run `cargo xtask deps`")
}
