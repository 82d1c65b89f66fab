//! What a node's HTTP and SQL jobs may reach: hosts, named databases and their functions, and secrets.

use punctual_core::invalid::Invalid;
use punctual_core::name;
use punctual_core::secret::{Secret, Value};
use punctual_engine::notify::NotifyOptions;
use punctual_engine::notify::courier::{PostOffice, PostOptions};
use punctual_engine::secrets::{self, SecretRules};
use punctual_engine::targets::http::guard::{Allowed, Guard};
use punctual_engine::targets::http::{HttpExecutor, HttpOptions};
use punctual_engine::work::Executors;
use punctual_store_postgres::sql_target::{
    AddressSource, FunctionExecutor, FunctionPattern, SqlConnection, check_address,
};
use punctual_store_sqlite::sql_target::{StatementConnection, StatementExecutor};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The rules of one node. By default its jobs may call public hosts on the usual ports, no database, and may use the
/// secrets in its environment and files.
///
/// ```
/// use punctual::calls::CallOptions;
/// use punctual_engine::work::Executors;
/// let mut options = CallOptions::default();
/// options.http_allow.push("10.0.0.0/8".parse()?);
/// assert_eq!(options.executors(Executors::default())?.job_types(), ["http"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// Hosts, addresses and nets that may be called beside public ones.
    pub http_allow: Vec<Allowed>,
    /// Ports that may be called; the usual ones when there are none.
    pub http_ports: Vec<u16>,
    /// Where this process itself listens; no job may call it.
    pub own_addresses: Vec<SocketAddr>,
    /// Databases, by the name that jobs use.
    pub databases: BTreeMap<String, Database>,
    /// Patterns of the secrets that jobs may use; all when there are none.
    pub secret_allow: Vec<String>,
}

/// A named database.
#[derive(Debug, Clone)]
pub enum Database {
    /// Functions of a PostgreSQL database.
    Postgres {
        /// Its address, or where the address is kept.
        address: Value,
        /// Which functions may be called.
        allow: Vec<FunctionPattern>,
    },
    /// Statement files for an SQLite database.
    Sqlite {
        /// The database's file.
        file: PathBuf,
        /// The folder of the statement files.
        statements: PathBuf,
    },
}

impl CallOptions {
    /// Where the node's calls may go.
    fn guard(&self) -> Guard {
        let guard = Guard::allowing(self.http_allow.clone()).with_own(self.own_addresses.clone());
        if self.http_ports.is_empty() { guard } else { guard.with_ports(self.http_ports.iter().copied()) }
    }

    /// What brings messages to channels, by the same rules as the calls of jobs. `public_url` is where people reach the
    /// server, for links.
    pub fn courier(&self, public_url: Option<String>) -> Result<PostOffice, Invalid> {
        let secrets = Arc::new(SecretRules::only(self.secret_allow.clone())?);
        let http = HttpOptions { guard: self.guard(), ..HttpOptions::default() };
        PostOffice::new(PostOptions { http, public_url, ..PostOptions::new(secrets) })
            .map_err(|error| Invalid::new("channels", format!("cannot be set up: {error}")))
    }

    /// Adds what the rules allow to what a node can run.
    pub fn executors(&self, executors: Executors) -> Result<Executors, Invalid> {
        let http = HttpExecutor::new(HttpOptions { guard: self.guard(), ..HttpOptions::default() })
            .map_err(|error| Invalid::new("http", format!("cannot be set up: {error}")))?;
        let rules = SecretRules::only(self.secret_allow.clone())?;
        let mut executors = executors.with_secrets(rules).with("http", Arc::new(http));
        for (name, database) in &self.databases {
            name::check(name).map_err(|error| Invalid { field: "sql connection".to_owned(), ..error })?;
            executors = match database {
                Database::Postgres { address, allow } => {
                    let mut connection = SqlConnection::new(address_source(name, address)?);
                    connection.allowed.clone_from(allow);
                    executors.with(format!("sql:{name}"), Arc::new(FunctionExecutor::new(connection)))
                }
                Database::Sqlite { file, statements } => {
                    let connection = StatementConnection::new(file, statements);
                    executors.with(format!("sql:{name}"), Arc::new(StatementExecutor::new(connection)))
                }
            };
        }
        Ok(executors)
    }
}

impl crate::Builder {
    /// Lets the node bring messages to the channels of the [notifications](crate), within these rules; a node that is
    /// not asked to leaves that to others. `public_url` is where people reach the server, for links.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("app.db").display());
    /// use punctual::calls::CallOptions;
    /// let punctual = punctual::Punctual::builder(&url).send_messages(&CallOptions::default(), None)?.open().await?;
    /// # drop(punctual);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn send_messages(mut self, rules: &CallOptions, public_url: Option<String>) -> crate::Result<Self> {
        let courier = rules.courier(public_url)?;
        self.node.notify = Some(NotifyOptions { courier: Some(Arc::new(courier)), ..NotifyOptions::default() });
        Ok(self)
    }
}

/// Reads a referenced address anew for every call, so that a new password needs no restart.
fn address_source(name: &str, address: &Value) -> Result<AddressSource, Invalid> {
    match address {
        Value::Plain(url) => {
            let field = format!("sql connection {name}");
            check_address(url).map_err(|error| Invalid { field, ..error })?;
            let url = Secret::new(url.as_str());
            Ok(Arc::new(move || Ok(url.clone())))
        }
        Value::Secret(reference) => {
            reference.source()?;
            let reference = reference.clone();
            Ok(Arc::new(move || secrets::read(reference.source()?)))
        }
    }
}
