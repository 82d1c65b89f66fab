//! One database for each test, copied from a template that is made once.

use super::server::{PrivateServer, shared_address};
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tokio_postgres::{Client, NoTls};

/// A database of one's own; it is dropped with this.
#[derive(Debug)]
pub struct Database {
    address: String,
    name: String,
}

impl Database {
    /// A copy of a template on the shared server. `version` is whatever the template is made of; `prepare` makes it, and
    /// is asked once for each version.
    pub async fn from_template<F: Future<Output = ()>>(version: &str, prepare: impl FnOnce(String) -> F) -> Self {
        let address = shared_address().to_owned();
        let mut hasher = DefaultHasher::new();
        version.hash(&mut hasher);
        let template = format!("punctual_template_{:016x}", hasher.finish());
        let admin = connect(&format!("{address}postgres")).await;
        make_template(&admin, &address, &template, prepare).await;
        let name = new_name();
        run(&admin, &format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        Self { address, name }
    }

    /// An empty database on the shared server.
    pub async fn empty() -> Self {
        Self::empty_at(shared_address().to_owned()).await
    }

    /// An empty database on a server of one's own.
    pub async fn empty_on(server: &PrivateServer) -> Self {
        Self::empty_at(server.url("")).await
    }

    async fn empty_at(address: String) -> Self {
        let name = new_name();
        let admin = connect(&format!("{address}postgres")).await;
        run(&admin, &format!("CREATE DATABASE {name}")).await;
        Self { address, name }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("{}{}", self.address, self.name)
    }

    /// The server's host and port.
    pub fn server(&self) -> &str {
        self.address.rsplit('@').next().unwrap_or_default().trim_end_matches('/')
    }

    /// The address of the database through somebody who stands before the server.
    pub fn url_through(&self, address: std::net::SocketAddr) -> String {
        self.url().replacen(self.server(), &address.to_string(), 1)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A connection of one's own, if the server can be reached.
    pub async fn try_connect(&self) -> Option<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    }

    /// A connection of one's own.
    pub async fn connect(&self) -> Client {
        connect(&self.url()).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (address, name) = (self.address.clone(), self.name.clone());
        // On a thread of its own, because this may be the end of an async test. A server that is gone has no databases.
        let dropping = std::thread::spawn(move || {
            crate::harness::block_on(async {
                if let Ok((admin, connection)) = tokio_postgres::connect(&format!("{address}postgres"), NoTls).await {
                    tokio::spawn(connection);
                    let _best_effort =
                        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
                }
            });
        });
        let _ended = dropping.join();
    }
}

async fn make_template<F: Future<Output = ()>>(
    admin: &Client, address: &str, template: &str, prepare: impl FnOnce(String) -> F,
) {
    // Of all tests that begin at the same time one makes it, and the others wait.
    run(admin, "SELECT pg_advisory_lock(4711)").await;
    let found = admin.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&template]).await;
    if found.expect("databases can be listed").is_empty() {
        // Under another name until it is whole.
        let making = format!("{template}_making");
        run(admin, &format!("DROP DATABASE IF EXISTS {making} WITH (FORCE)")).await;
        run(admin, &format!("CREATE DATABASE {making}")).await;
        prepare(format!("{address}{making}")).await;
        rename(admin, &making, template).await;
    }
    run(admin, "SELECT pg_advisory_unlock(4711)").await;
}

/// Renames a database once the connections of whoever made it are closed.
async fn rename(admin: &Client, from: &str, to: &str) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    let rename = format!("ALTER DATABASE {from} RENAME TO {to}");
    for _ in 0..100 {
        admin.execute(end, &[&from]).await.expect("connections can be ended");
        if admin.batch_execute(&rename).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run(admin, &rename).await;
}

fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    format!("punctual_test_{}_{number}_{nanos}", std::process::id())
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server can be reached");
    tokio::spawn(connection);
    client
}

async fn run(client: &Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql).await {
        panic!("{sql}: {error:?}");
    }
}
