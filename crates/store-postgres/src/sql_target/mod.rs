//! Jobs that call a function of a PostgreSQL database, on a connection and under a role of their own.
//!
//! The function answers with `{"success": …, "message": …, "details": …}` (B02). Everything else it may do, be or
//! return ends as a failed run that says what was wrong.

mod allow;
mod answer;
mod call;

pub use allow::{FunctionPattern, NotAPattern};

use crate::address::Address;
use crate::error::with_causes;
use crate::tls;
use async_trait::async_trait;
use call::Call;
use punctual_core::execute::{Executor, RunContext, stopped};
use punctual_core::invalid::Invalid;
use punctual_core::job::Timeout;
use punctual_core::run::ErrorCode;
use punctual_core::secret::Secret;
use punctual_core::store::FinishedRun;
use punctual_core::target::Target;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a call waits for a lock when nobody says otherwise.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a transaction may stay idle: between two statements of ours that is next to nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Where an address is read when it is needed: from the node's options, or from where they say it is kept.
pub type AddressSource = Arc<dyn Fn() -> Result<Secret, Invalid> + Send + Sync>;

/// A named connection of a node.
#[derive(Clone)]
pub struct SqlConnection {
    /// Its address, with the role that the functions run under.
    pub address: AddressSource,
    /// Which functions may be called. Without any, none may.
    pub allowed: Vec<FunctionPattern>,
    /// How long a call may take; the job's own timeout holds in any case.
    pub statement_timeout: Option<Duration>,
    /// How long it may wait for a lock.
    pub lock_timeout: Duration,
    /// How long a transaction may stay idle.
    pub idle_timeout: Duration,
}

impl SqlConnection {
    /// A connection whose functions are to be named.
    pub fn new(address: AddressSource) -> Self {
        Self {
            address,
            allowed: Vec::new(),
            statement_timeout: None,
            lock_timeout: LOCK_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
        }
    }
}

/// Refuses an address that no connection could be made to; whoever starts a node learns it at once.
pub fn check_address(url: &str) -> Result<(), Invalid> {
    let address = Address::parse(url)?;
    tls::connector(address.trust, address.root_cert.as_deref()).map(|_| ())
}

/// Calls functions on one connection.
pub struct FunctionExecutor(SqlConnection);

impl FunctionExecutor {
    /// For the job type `sql:NAME` of this connection.
    pub fn new(connection: SqlConnection) -> Self {
        Self(connection)
    }

    fn address(&self, run: &RunContext) -> Result<Address, Failure> {
        let unfit = |error: Invalid| Failure::new(ErrorCode::TargetError, format!("the connection's address: {error}"));
        let url = (self.0.address)().map_err(unfit)?;
        run.secrets.hide(url.expose());
        let mut address = Address::parse(url.expose()).map_err(unfit)?;
        if let Some(password) = address.config.get_password() {
            run.secrets.hide(&String::from_utf8_lossy(password));
        }
        address.config.application_name(format!("punctual job {}", run.job.id));
        Ok(address)
    }

    /// The shorter one of the job's timeout and the connection's; zero means none.
    fn statement_timeout(&self, run: &RunContext) -> Duration {
        let job = match run.job.spec.timeout {
            Timeout::After(limit) => Duration::try_from(limit).ok(),
            Timeout::Never => None,
        };
        job.into_iter().chain(self.0.statement_timeout).min().unwrap_or(Duration::ZERO)
    }

    async fn call(&self, run: &RunContext, function: &str) -> Result<FinishedRun, Failure> {
        let address = self.address(run)?;
        let mut call = Call::connect(run, &address).await?;
        let cancel = call.cancel();
        let mut work = pin!(call.run(function, &self.0, self.statement_timeout(run)));
        let (answer, told) = tokio::select! {
            biased;
            answer = &mut work => (answer, None),
            reason = run.stop.requested() => {
                cancel.await;
                // What was done by then is done; otherwise the cancelled statement says so now.
                (work.await, Some(reason))
            }
        };
        match (answer, told) {
            (Ok(answer), _) => Ok(answer::judge(run, answer.as_deref())),
            (Err(_), Some(reason)) => Ok(stopped(run.job.id, reason)),
            (Err(failure), None) => Err(failure),
        }
    }
}

#[async_trait]
impl Executor for FunctionExecutor {
    async fn run(&self, run: RunContext) -> FinishedRun {
        let Target::Sql(sql) = &run.job.spec.target else {
            return run.failed(ErrorCode::Internal, "a job of another kind was handed to the SQL executor");
        };
        let Some(function) = &sql.function else {
            let why = format!("`{}` is a PostgreSQL database: name a function, not a statement file", sql.connection);
            return run.failed(ErrorCode::TargetRejected, why);
        };
        self.call(&run, function).await.unwrap_or_else(|failure| run.failed(failure.code, failure.words))
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    code: ErrorCode,
    words: String,
}

impl Failure {
    fn new(code: ErrorCode, words: impl Into<String>) -> Self {
        Self { code, words: words.into() }
    }

    /// What the database, or the way to it, said.
    fn of(error: &tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return Self::new(ErrorCode::TargetError, format!("the connection broke: {}", with_causes(error)));
        };
        let mut words = format!("{} ({})", said.message(), said.code().code());
        for (name, more) in [("detail", said.detail()), ("hint", said.hint()), ("where", said.where_())] {
            if let Some(more) = more {
                words = format!("{words}\n{name}: {more}");
            }
        }
        Self::new(ErrorCode::TargetError, words)
    }
}
