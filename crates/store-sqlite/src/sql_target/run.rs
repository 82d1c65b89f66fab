//! One statement file from its first statement to its commit, on the thread that it blocks.

use super::{Failure, StatementConnection};
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, OpenFlags, Row, Statement, ffi};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most rows that are kept with the run, and the most bytes of them.
const ROWS_MAX: usize = 1_000;
const ROWS_MAX_BYTES: usize = 256 * 1024;

/// So often, in steps of the database's machine, it is looked whether to stop.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;

/// How long to wait before somebody else's lock is looked at again.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// What the run keeps: the rows of the last statement that had any, and how many rows were changed.
#[derive(Default, Serialize)]
struct Output {
    rows: Vec<Map<String, Value>>,
    changes: u64,
    /// Said only when there were more rows than are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rows_cut: bool,
}

pub(super) fn run(
    options: &StatementConnection, text: &str, input: &str, stop: &Arc<AtomicBool>,
) -> Result<Json, Failure> {
    let began = Instant::now();
    let judge = |error: rusqlite::Error| judge(&error, options, began.elapsed());
    let connection = open(options, stop).map_err(judge)?;
    // Several statements are one change. A single one stands for itself, so that it may be a VACUUM.
    let many = has_many(&connection, text);
    if many {
        connection.execute_batch("BEGIN IMMEDIATE").map_err(judge)?;
    }
    let mut output = Output::default();
    let mut batch = Batch::new(&connection, text);
    while let Some(mut statement) = batch.next().map_err(judge)? {
        bind(&mut statement, input)?;
        step(&mut statement, &mut output).map_err(judge)?;
    }
    if many {
        if stop.load(Ordering::SeqCst) {
            return Err(Failure::new(ErrorCode::Interrupted, "it was told to stop"));
        }
        connection.execute_batch("COMMIT").map_err(judge)?;
    }
    output.changes = connection.total_changes();
    Json::from_value("output", &output).map_err(|error| Failure::new(ErrorCode::OutputTooLarge, error.to_string()))
}

fn open(options: &StatementConnection, stop: &Arc<AtomicBool>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&options.database, flags)?;
    let told = Arc::clone(stop);
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || told.load(Ordering::SeqCst)))?;
    let (told, patience) = (Arc::clone(stop), options.lock_timeout);
    let mut since = Instant::now();
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        let wait = !told.load(Ordering::SeqCst) && since.elapsed() < patience;
        if wait {
            std::thread::sleep(BUSY_PAUSE);
        }
        wait
    }))?;
    connection.authorizer(Some(authorize))?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    Ok(connection)
}

/// One connection is one database: no statement leads to another file. An empty name is a temporary database, which
/// VACUUM needs.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { filename: "" } => Authorization::Allow,
        AuthAction::Attach { .. } | AuthAction::Unknown { code: ffi::SQLITE_ATTACH, .. } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

/// Whether there is a second statement. One that cannot be understood before the first has run is one as well.
fn has_many(connection: &Connection, text: &str) -> bool {
    let mut batch = Batch::new(connection, text);
    matches!(batch.next(), Ok(Some(_))) && !matches!(batch.next(), Ok(None))
}

/// The input is there for every statement that asks for it; nothing else can be asked for.
fn bind(statement: &mut Statement<'_>, input: &str) -> Result<(), Failure> {
    for index in 1..=statement.parameter_count() {
        if statement.parameter_name(index) != Some(":input") {
            let words = "a statement has a parameter that nobody fills in; the only one is :input";
            return Err(Failure::new(ErrorCode::TargetRejected, words));
        }
        let bound = statement.raw_bind_parameter(index, input);
        bound.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    }
    Ok(())
}

fn step(statement: &mut Statement<'_>, output: &mut Output) -> rusqlite::Result<()> {
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    if names.is_empty() {
        while rows.next()?.is_some() {}
        return Ok(());
    }
    (output.rows, output.rows_cut) = (Vec::new(), false);
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let row = shown(row, &names)?;
        bytes += row.iter().map(|(name, value)| name.len() + value.to_string().len()).sum::<usize>();
        if output.rows.len() == ROWS_MAX || bytes > ROWS_MAX_BYTES {
            output.rows_cut = true;
            break;
        }
        output.rows.push(row);
    }
    Ok(())
}

fn shown(row: &Row<'_>, names: &[String]) -> rusqlite::Result<Map<String, Value>> {
    let value = |index: usize| -> rusqlite::Result<Value> {
        Ok(match row.get_ref(index)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::from(number),
            ValueRef::Real(number) => Value::from(number),
            ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text).replace('\0', "\u{fffd}")),
            ValueRef::Blob(bytes) => Value::from(hexadecimal(bytes)),
        })
    };
    names.iter().enumerate().map(|(index, name)| Ok((name.clone(), value(index)?))).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn judge(error: &rusqlite::Error, options: &StatementConnection, passed: Duration) -> Failure {
    use rusqlite::ErrorCode as Code;
    match error.sqlite_error_code() {
        Some(Code::DatabaseBusy) if passed >= options.lock_timeout => {
            let words = format!("the statement waited longer than {:?} for the database's lock", options.lock_timeout);
            Failure::new(ErrorCode::Timeout, words)
        }
        Some(Code::AuthorizationForStatementDenied) => {
            Failure::new(ErrorCode::TargetRejected, "a statement may not attach another database")
        }
        Some(Code::CannotOpen | Code::NotADatabase) => {
            Failure::new(ErrorCode::TargetError, "the database cannot be opened: there is no such SQLite file")
        }
        Some(Code::OperationInterrupted) => Failure::new(ErrorCode::Interrupted, "it was told to stop"),
        _ => Failure::new(ErrorCode::TargetError, error.to_string()),
    }
}
