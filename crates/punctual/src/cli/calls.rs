//! The options about what a node's HTTP and SQL jobs may reach.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use punctual::calls::{CallOptions, Database};
use punctual_core::secret::{SecretRef, Value};
use punctual_engine::targets::http::guard::Allowed;
use punctual_store_postgres::sql_target::FunctionPattern;

use super::Stop;

/// What jobs may reach.
#[derive(Args)]
#[command(next_help_heading = "What jobs may reach")]
pub(crate) struct CallArgs {
    /// Let HTTP jobs call this host, address or net as well; without it, they may call public addresses only
    #[arg(long, value_name = "HOST[:PORT]|CIDR", env = "PUNCTUAL_HTTP_ALLOW", value_delimiter = ',')]
    http_allow: Vec<Allowed>,
    /// Let HTTP jobs call this port of public addresses [default: 80, 443, 8080 and 8443]
    #[arg(long = "http-port", value_name = "PORT", env = "PUNCTUAL_HTTP_PORTS", value_delimiter = ',')]
    http_ports: Vec<u16>,
    /// A database for SQL jobs: postgres://…, sqlite:PATH, or where its address is kept, env:VARIABLE or <file:/PATH>; or
    /// `store` for the store's own PostgreSQL database, as the store's own role
    #[arg(long = "sql-connection", value_name = "NAME=URL", env = "PUNCTUAL_SQL_CONNECTIONS", value_parser = pair)]
    sql_connections: Vec<(String, String)>,
    /// A function that SQL jobs may call, such as `main=jobs.clean_up` or main=jobs.*
    #[arg(long, value_name = "NAME=SCHEMA.FUNCTION", env = "PUNCTUAL_SQL_ALLOW", value_delimiter = ',', value_parser = pair)]
    sql_allow: Vec<(String, String)>,
    /// The folder of statement files that SQL jobs may run on an SQLite database
    #[arg(long, value_name = "NAME=DIR", env = "PUNCTUAL_SQL_STATEMENTS", value_delimiter = ',', value_parser = pair)]
    sql_statements: Vec<(String, String)>,
    /// Hand out this secret to jobs, such as env:SHOP_* or <file:/run/secrets>/*; without it, all but Punctual's own
    #[arg(long, value_name = "PATTERN", env = "PUNCTUAL_SECRET_ALLOW", value_delimiter = ',')]
    secret_allow: Vec<String>,
}

/// What stands for the address of the store itself.
const OF_THE_STORE: &str = "store";

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

impl CallArgs {
    /// Puts together what belongs to one connection, and refuses what belongs to none. `store` is the address of the
    /// store, if one was given; without one it is a file of our own.
    pub(crate) fn options(&self, store: Option<&str>) -> Result<CallOptions, Stop> {
        let mut databases = BTreeMap::new();
        for (name, url) in &self.sql_connections {
            if databases.insert(name.clone(), self.database(name, url, store)?).is_some() {
                return Err(Stop::usage(format!("--sql-connection {name} is given twice; use two names")));
            }
        }
        for (name, _) in self.sql_allow.iter().chain(&self.sql_statements) {
            if !databases.contains_key(name) {
                return Err(Stop::usage(format!("there is no connection {name}; add --sql-connection {name}=URL")));
            }
        }
        Ok(CallOptions {
            http_allow: self.http_allow.clone(),
            http_ports: self.http_ports.clone(),
            databases,
            secret_allow: self.secret_allow.clone(),
            ..CallOptions::default()
        })
    }

    fn database(&self, name: &str, url: &str, store: Option<&str>) -> Result<Database, Stop> {
        let of_this = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().filter(|(of, _)| of == name).map(|(_, value)| value.clone()).collect()
        };
        let (functions, folders) = (of_this(&self.sql_allow), of_this(&self.sql_statements));
        if let Some(file) = url.strip_prefix("sqlite:") {
            return match (&folders[..], functions.is_empty()) {
                ([folder], true) => {
                    Ok(Database::Sqlite { file: PathBuf::from(file), statements: PathBuf::from(folder) })
                }
                _ => Err(Stop::usage(format!(
                    "{name} is an SQLite database: name the folder of its statement files, once, with \
                     --sql-statements {name}=DIR"
                ))),
            };
        }
        if functions.is_empty() || !folders.is_empty() {
            return Err(Stop::usage(format!(
                "{name} is a PostgreSQL database: name the functions that may be called with --sql-allow \
                 {name}=SCHEMA.FUNCTION"
            )));
        }
        let allow = functions.iter().map(|text| text.parse::<FunctionPattern>()).collect::<Result<Vec<_>, _>>();
        let allow = allow.map_err(|error| Stop::usage(format!("--sql-allow {name}: {error}")))?;
        let address = if url == OF_THE_STORE { own_address(name, store)? } else { address(name, url)? };
        Ok(Database::Postgres { address, allow })
    }
}

/// The store's own address, password and all: it was not given with the connection, so that nobody reads it there.
fn own_address(name: &str, store: Option<&str>) -> Result<Value, Stop> {
    let is_postgres = |url: &&str| url.starts_with("postgres://") || url.starts_with("postgresql://");
    store.filter(is_postgres).map(Value::from).ok_or_else(|| {
        Stop::usage(format!(
            "{name} is to be the store's own database, and that is an SQLite file, which has no functions; name a \
             PostgreSQL store with --database postgres://…, or another database with --sql-connection {name}=URL"
        ))
    })
}

/// An address without a password, or where one with a password is kept: everybody on the machine can read arguments.
fn address(name: &str, url: &str) -> Result<Value, Stop> {
    if url.starts_with("env:") || url.starts_with("file:") {
        return Ok(Value::Secret(SecretRef::new(url)));
    }
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest.split(['/', '?']).next().unwrap_or(rest));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    if user.contains(':') || url.contains("password=") {
        return Err(Stop::usage(format!(
            "the address of {name} holds a password that everybody on this machine could read; put the address into a \
             variable or a file and write --sql-connection {name}=env:VARIABLE or {name}=file:/PATH"
        )));
    }
    Ok(Value::from(url))
}
