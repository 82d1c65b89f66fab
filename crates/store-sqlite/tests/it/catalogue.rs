//! The list of what a move carries against the file's own catalogue: nothing that a migration adds can be forgotten.

use punctual_core::transfer::tables::{Column, Kind, LEFT_BEHIND, NOT_EVERYWHERE, TABLES};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

fn rows<T>(connection: &Connection, sql: &str, read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| read(row)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn declared(column: &Column) -> &'static str {
    match column.kind {
        Kind::Id | Kind::Bytes => "BLOB",
        Kind::Time | Kind::Flag | Kind::Number => "INTEGER",
        Kind::Text | Kind::Json | Kind::Tags => "TEXT",
    }
}

/// The columns that no two rows share, by each way in which the table says so.
fn keys(connection: &Connection, table: &str) -> Vec<BTreeSet<String>> {
    let primary = format!("SELECT name FROM pragma_table_xinfo('{table}') WHERE pk > 0");
    let mut keys = vec![rows(connection, &primary, |row| row.get(0)).into_iter().collect()];
    let unique = format!("SELECT name FROM pragma_index_list('{table}') WHERE \"unique\" AND NOT partial");
    for index in rows(connection, &unique, |row| row.get::<_, String>(0)) {
        let columns = format!("SELECT name FROM pragma_index_info('{index}')");
        keys.push(rows(connection, &columns, |row| row.get(0)).into_iter().collect());
    }
    keys
}

#[test]
fn c02_every_table_and_column_is_carried_or_left_behind_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.db");
    SqliteStore::open(&file, SqliteOptions::default()).unwrap();
    let connection = Connection::open(&file).unwrap();
    let left = |name: &str| LEFT_BEHIND.iter().any(|(left, _)| *left == name);
    let names = "SELECT substr(name, 10) FROM sqlite_master WHERE type = 'table' AND name LIKE 'punctual%'";
    let mut carried: BTreeMap<_, _> = TABLES.iter().map(|table| (table.name, table)).collect();
    for name in rows(&connection, names, |row| row.get::<_, String>(0)) {
        let Some(table) = carried.remove(name.as_str()) else {
            assert!(left(&name), "`{name}` is neither carried nor left behind");
            continue;
        };
        let columns = format!("SELECT name, type FROM pragma_table_xinfo('punctual_{name}')");
        let columns = rows(&connection, &columns, |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        let mut listed: BTreeMap<_, _> = table.columns.iter().map(|column| (column.name, declared(column))).collect();
        for (column, kind) in columns {
            let expected = listed.remove(column.as_str());
            assert!(expected.is_some() || left(&format!("{name}.{column}")), "`{name}.{column}` is forgotten");
            assert_eq!(expected.unwrap_or(&kind), kind, "{name}.{column}");
        }
        assert_eq!(listed, BTreeMap::new(), "columns that `{name}` does not have");
        let key: BTreeSet<_> = table.columns[..table.key].iter().map(|column| column.name.to_owned()).collect();
        let keys = keys(&connection, &format!("punctual_{name}"));
        assert!(keys.contains(&key), "no two rows of `{name}` share its key: {keys:?}");
    }
    let missing: Vec<_> = carried.into_keys().filter(|name| !NOT_EVERYWHERE.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "tables that are not there");
}
