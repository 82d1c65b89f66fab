//! A server on a socket of its own, on a store of its own.

use crate::client::{Answer, Call};
use punctual_core::access::{NewToken, Role};
use punctual_core::store::Store;
use punctual_server::secret::Secret;
use punctual_server::{AppState, Settings, first_admin_token, serve};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::Database;
use serde_json::Value;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Runs a test on a runtime of its own.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test ends") });
}

/// A server with everything that surrounds it.
pub struct World {
    pub address: SocketAddr,
    pub store: Arc<dyn Store>,
    pub state: AppState,
    /// The secret of the first admin's token.
    pub admin: String,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    serving: Mutex<Option<JoinHandle<()>>>,
    data: Data,
}

/// Where the data is; it goes away with the world.
enum Data {
    Folder(tempfile::TempDir),
    Database(Database),
}

impl Data {
    fn folder() -> Self {
        Self::Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        let Self::Folder(folder) = self else { panic!("it is in a database") };
        folder.path().join("server.db")
    }
}

impl World {
    pub async fn sqlite() -> Self {
        Self::on_sqlite(SqliteOptions::default(), Settings::default()).await
    }

    pub async fn postgres() -> Self {
        Self::on_postgres(PostgresOptions::default(), Settings::default()).await
    }

    /// The same with other settings, on SQLite.
    pub async fn with(settings: Settings) -> Self {
        Self::on_sqlite(SqliteOptions::default(), settings).await
    }

    pub async fn on_sqlite(options: SqliteOptions, settings: Settings) -> Self {
        let data = Data::folder();
        let store = SqliteStore::open(&data.file(), options).unwrap();
        Self::serve(Arc::new(store), data, settings).await
    }

    pub async fn on_postgres(options: PostgresOptions, settings: Settings) -> Self {
        let database = Database::empty().await;
        let store = PostgresStore::connect(&database.url(), options).await.unwrap();
        Self::serve(Arc::new(store), Data::Database(database), settings).await
    }

    /// Changes a table by hand, as somebody with a SQL prompt would; `{}` stands before the table's name.
    pub async fn tamper(&self, sql: &str) {
        let changed = match &self.data {
            Data::Folder(_) => {
                let prompt = rusqlite::Connection::open(self.data.file()).unwrap();
                prompt.busy_timeout(Duration::from_secs(30)).unwrap();
                u64::try_from(prompt.execute(&sql.replace("{}", "punctual_"), []).unwrap()).unwrap()
            }
            Data::Database(database) => {
                database.connect().await.execute(&sql.replace("{}", "punctual_internal."), &[]).await.unwrap()
            }
        };
        assert!(changed > 0, "`{sql}` changes something");
    }

    async fn serve(store: Arc<dyn Store>, data: Data, settings: Settings) -> Self {
        let admin = first_admin_token(store.as_ref()).await.unwrap().expect("it is the first");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = AppState::new(Arc::clone(&store), settings);
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn({
            let state = state.clone();
            async move { serve(listener, state, async { stopped.await.unwrap_or(()) }).await.unwrap() }
        });
        Self {
            address,
            store,
            state,
            admin: admin.reveal().to_owned(),
            stop: Mutex::new(Some(stop)),
            serving: Mutex::new(Some(serving)),
            data,
        }
    }

    /// Stops the server and waits until it is gone.
    pub async fn stop(&self) {
        let stop = self.stop.lock().unwrap().take().expect("it runs");
        stop.send(()).unwrap();
        let serving = self.serving.lock().unwrap().take().expect("it runs");
        serving.await.unwrap();
    }

    /// A request to a path under the API, without a token.
    pub fn bare(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, &format!("/api/v1{path}"))
    }

    /// A request of the admin.
    pub fn call(&self, method: &str, path: &str) -> Call {
        self.bare(method, path).token(&self.admin)
    }

    pub async fn get(&self, path: &str) -> Value {
        self.call("GET", path).send().await.expect(200)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path).json(body).send().await
    }

    /// A token of an owner.
    pub async fn token(&self, owner: &str, role: Role) -> String {
        self.token_until(owner, role, None).await
    }

    pub async fn token_until(&self, owner: &str, role: Role, expires_at: Option<jiff::Timestamp>) -> String {
        let secret = Secret::new_token().unwrap();
        let token = NewToken {
            prefix: secret.prefix().unwrap().to_owned(),
            hash: secret.hash(),
            name: "test".into(),
            owner: owner.into(),
            role,
            expires_at,
        };
        self.store.create_token(token).await.unwrap();
        secret.reveal().to_owned()
    }
}
