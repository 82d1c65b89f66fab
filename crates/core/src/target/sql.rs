//! A SQL call as data: a function of a PostgreSQL database, or a statement file for an SQLite one.

use crate::invalid::Invalid;
use crate::name;
use serde::{Deserialize, Serialize};

/// A SQL call on a named connection of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    /// The named connection.
    pub connection: String,
    /// The function to call, as SQL writes it: `jobs.clean_up`, or `"Jobs"."CleanUp"` when the letters' case matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The file in the connection's folder of statements: `reports/clean_up.sql`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
}

impl Sql {
    /// Calls a function.
    pub fn function(connection: impl Into<String>, function: impl Into<String>) -> Self {
        Self { connection: connection.into(), function: Some(function.into()), statement: None }
    }

    /// Runs a statement file.
    pub fn statement(connection: impl Into<String>, statement: impl Into<String>) -> Self {
        Self { connection: connection.into(), function: None, statement: Some(statement.into()) }
    }

    /// Refuses what could never be called.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let named =
            |field: &str, text: &str| name::check(text).map_err(|e| Invalid { field: format!("target.{field}"), ..e });
        named("connection", &self.connection)?;
        match (&self.function, &self.statement) {
            (Some(function), None) => named("function", function),
            (None, Some(statement)) => named("statement", statement),
            _ => Err(Invalid::new("target", "names neither a function nor a statement, or both")
                .remedy("give `function` for PostgreSQL, or `statement` for SQLite")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b12_a_call_names_one_function_or_one_statement() {
        assert_eq!(Sql::function("reports", r#""Jobs"."; DROP""#).validate(), Ok(()));
        assert_eq!(Sql::statement("local", "clean_up.sql").validate(), Ok(()));
        let both = Sql { statement: Some("a.sql".into()), ..Sql::function("reports", "f") };
        let neither = Sql { function: None, ..Sql::function("reports", "f") };
        assert_eq!(both.validate().unwrap_err().field, "target");
        assert_eq!(neither.validate().unwrap_err().field, "target");
        assert_eq!(Sql::function("", "f").validate().unwrap_err().field, "target.connection");
        assert_eq!(Sql::function("c", "f\0").validate().unwrap_err().field, "target.function");
    }
}
