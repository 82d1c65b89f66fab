//! One call on one connection, which is closed at its end, however that comes.

use super::{Failure, SqlConnection};
use crate::address::Address;
use crate::error::with_causes;
use crate::tls;
use punctual_core::execute::RunContext;
use punctual_core::json::JSON_MAX_BYTES;
use punctual_core::records::LogStream;
use punctual_core::run::ErrorCode;
use std::future::poll_fn;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Connection, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

const FIND_FUNCTION: &str = include_str!("../../sql/find_function.sql");

/// While a function runs the server looks every second whether we are still there, if it is one that can.
const LOOK_FOR_US: &str = "SELECT set_config(name, '1000', true) FROM pg_catalog.pg_settings \
     WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'";

/// How long the request to cancel may take.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// A connection, and how to stop what runs on it. Dropping it does so.
pub(super) struct Call {
    client: Client,
    reading: AbortHandle,
    token: CancelToken,
    connector: MakeRustlsConnect,
    input: String,
    /// Whether something may be running on the server.
    busy: bool,
}

/// A function as the catalog has it; the names are quoted by the database.
struct Function {
    schema: String,
    name: String,
    arguments: String,
    returns: String,
    answers_jsonb: bool,
    takes: i32,
    may_call: bool,
}

impl Call {
    pub(super) async fn connect(run: &RunContext, address: &Address) -> Result<Self, Failure> {
        let connector = tls::connector(address.trust, address.root_cert.as_deref())
            .map_err(|error| Failure::new(ErrorCode::TargetError, error.to_string()))?;
        let connecting = address.config.connect(connector.clone());
        let connected = tokio::select! {
            connected = connecting => connected,
            // The caller records why it had to stop.
            _ = run.stop.requested() => return Err(Failure::new(ErrorCode::Interrupted, "stopped before it was connected")),
        };
        let (client, connection) = connected.map_err(|error| {
            Failure::new(ErrorCode::TargetError, format!("the connection cannot be made: {}", with_causes(&error)))
        })?;
        let reading = tokio::spawn(read(connection, run.clone())).abort_handle();
        let (token, input) = (client.cancel_token(), run.job.spec.input.as_str().to_owned());
        Ok(Self { client, reading, token, connector, input, busy: false })
    }

    /// Finds the function, calls it, and commits what it has done; its answer is JSON text or null.
    pub(super) async fn run(
        &mut self, function: &str, connection: &SqlConnection, statement_timeout: Duration,
    ) -> Result<Option<String>, Failure> {
        self.busy = true;
        let began = Instant::now();
        let result = self.transact(function, connection, statement_timeout).await;
        self.busy = false;
        result.map_err(|failure| match failure {
            Trouble::Told(failure) => failure,
            Trouble::Database(error) => judge(&error, began.elapsed(), connection, statement_timeout),
        })
    }

    async fn transact(
        &mut self, function: &str, connection: &SqlConnection, statement_timeout: Duration,
    ) -> Result<Option<String>, Trouble> {
        // Local settings hold behind a pooler too, and end with the transaction.
        let settings = format!(
            "BEGIN; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}; {LOOK_FOR_US}",
            millis(statement_timeout),
            millis(connection.lock_timeout),
            millis(connection.idle_timeout),
        );
        self.client.batch_execute(&settings).await?;
        let found = self.find(function).await?;
        let function = choose(function, found, connection)?;
        let answer = self.select(&function).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(answer)
    }

    async fn find(&self, function: &str) -> Result<Vec<Function>, Trouble> {
        let rows = self.client.query_typed(FIND_FUNCTION, &[(&function, Type::TEXT)]).await;
        let rows = rows.map_err(|error| {
            // The only thing that this statement can stumble over is the name itself.
            let unfit = error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE);
            let words = || error.as_db_error().map_or_else(String::new, |said| said.message().to_owned());
            if unfit { rejected(format!("{function} is no name of a function: {}", words())) } else { error.into() }
        })?;
        Ok(rows.iter().map(Function::from_row).collect::<Result<_, _>>()?)
    }

    /// Calls the function once. An answer that is too large stays where it is.
    async fn select(&self, function: &Function) -> Result<Option<String>, Trouble> {
        let argument = if function.takes == 1 { "$1::text::jsonb" } else { "" };
        // OFFSET 0 keeps the planner from calling a function twice that claims to be stable.
        let sql = format!(
            "SELECT octet_length(answer), CASE WHEN octet_length(answer) <= {JSON_MAX_BYTES} THEN answer END \
             FROM (SELECT {}.{}({argument})::text AS answer OFFSET 0) AS called",
            function.schema, function.name
        );
        let input: (&(dyn ToSql + Sync), Type) = (&self.input, Type::TEXT);
        let params = if function.takes == 1 { vec![input] } else { Vec::new() };
        let rows = self.client.query_typed(&sql, &params).await?;
        let row = rows.first().ok_or_else(|| Failure::new(ErrorCode::BadOutput, "the function answered nothing"))?;
        let (length, answer): (Option<i32>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        match length.filter(|_| answer.is_none()) {
            Some(length) => {
                let words = format!("the answer has {length} bytes; at most {JSON_MAX_BYTES} are allowed");
                Err(Failure::new(ErrorCode::OutputTooLarge, words).into())
            }
            None => Ok(answer),
        }
    }

    /// What asks the server to stop what runs on this connection.
    pub(super) fn cancel(&self) -> impl Future<Output = ()> + Send + use<> {
        cancel(self.token.clone(), self.connector.clone())
    }
}

impl Function {
    fn from_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            schema: row.try_get(0)?,
            name: row.try_get(1)?,
            arguments: row.try_get(2)?,
            returns: row.try_get(3)?,
            answers_jsonb: row.try_get(4)?,
            takes: row.try_get(5)?,
            may_call: row.try_get(6)?,
        })
    }
}

/// Takes the first function that can be called, if it may be called and can answer.
fn choose(wanted: &str, found: Vec<Function>, connection: &SqlConnection) -> Result<Function, Trouble> {
    let Some(first) = found.first() else {
        let words = format!("there is no function {wanted}; names without quotes are read in small letters");
        return Err(Failure::new(ErrorCode::TargetError, words).into());
    };
    let name = format!("{}.{}", first.schema, first.name);
    if !connection.allowed.iter().any(|pattern| pattern.covers(&first.schema, &first.name)) {
        return Err(rejected(format!("{name} is not a function that this connection may call; see --sql-allow")));
    }
    let arguments = first.arguments.clone();
    let schema = first.schema.clone();
    let callable = found.into_iter().find(|function| function.schema == schema && function.takes >= 0);
    let Some(function) = callable else {
        return Err(rejected(format!("{name} takes ({arguments}); it must take one jsonb, or nothing")));
    };
    if !function.may_call {
        return Err(rejected(format!("the connection's role may not call {name}")));
    }
    if !function.answers_jsonb {
        let words = format!("{name} returns {}; it must return jsonb", function.returns);
        return Err(Failure::new(ErrorCode::BadOutput, words).into());
    }
    Ok(function)
}

fn rejected(words: String) -> Trouble {
    Failure::new(ErrorCode::TargetRejected, words).into()
}

/// Why a transaction stopped.
enum Trouble {
    Told(Failure),
    Database(tokio_postgres::Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

/// What an error of the database means. The same code stands for a limit that was reached and for a person who
/// cancelled or a NOWAIT that failed; the time that has passed tells them apart.
fn judge(
    error: &tokio_postgres::Error, passed: Duration, connection: &SqlConnection, statement_timeout: Duration,
) -> Failure {
    let reached = |limit: Duration| !limit.is_zero() && passed >= limit;
    let code = error.code();
    if code == Some(&SqlState::QUERY_CANCELED) && reached(statement_timeout) {
        let words = format!("the call took longer than its statement timeout of {statement_timeout:?}");
        return Failure::new(ErrorCode::Timeout, words);
    }
    if code == Some(&SqlState::LOCK_NOT_AVAILABLE) && reached(connection.lock_timeout) {
        let words = format!("the call waited longer than {:?} for a lock", connection.lock_timeout);
        return Failure::new(ErrorCode::Timeout, words);
    }
    Failure::of(error)
}

fn millis(time: Duration) -> u128 {
    // PostgreSQL takes zero for no limit, and counts in 31 bits.
    if time.is_zero() { 0 } else { time.as_millis().clamp(1, i32::MAX.unsigned_abs().into()) }
}

/// Reads what the server sends, and puts its notices into the run's log.
async fn read<S, T>(mut connection: Connection<S, T>, run: RunContext)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message {
            log(&run, &notice);
        }
    }
}

fn log(run: &RunContext, notice: &DbError) {
    let stream = if notice.severity() == "WARNING" { LogStream::Stderr } else { LogStream::Stdout };
    for line in format!("{}: {}", notice.severity(), notice.message()).lines() {
        run.log(stream, line);
    }
}

async fn cancel(token: CancelToken, connector: MakeRustlsConnect) {
    match tokio::time::timeout(CANCEL_PATIENCE, token.cancel_query(connector)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("failed to cancel a SQL call: {}", with_causes(&error)),
        Err(_) => tracing::warn!("failed to cancel a SQL call in time"),
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Who has come to his end says goodbye. Who is dropped in the middle has no time left, and closes the
        // connection; the server must not go on with it.
        if self.busy {
            self.reading.abort();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(self.cancel());
            }
        }
    }
}
