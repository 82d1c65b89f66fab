//! The list of what a move carries against the database's own catalogue: nothing that a migration adds can be forgotten.

use crate::harness::fresh_database;
use punctual_core::transfer::tables::{Column, Kind, LEFT_BEHIND, TABLES};
use punctual_testkit::harness::block_on;
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

fn declared(column: &Column) -> &'static [&'static str] {
    match column.kind {
        Kind::Id => &["uuid"],
        Kind::Time => &["timestamp with time zone"],
        Kind::Flag => &["boolean"],
        Kind::Number => &["bigint", "integer", "smallint"],
        Kind::Text => &["text"],
        Kind::Json => &["json"],
        Kind::Bytes => &["bytea"],
        Kind::Tags => &["text[]"],
    }
}

async fn columns(client: &Client) -> BTreeMap<String, Vec<(String, String)>> {
    let find = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, -1)
                FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                WHERE c.relnamespace = 'punctual_internal'::regnamespace AND c.relkind IN ('r', 'p')
                  AND NOT c.relispartition";
    let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in client.query(find, &[]).await.unwrap() {
        tables.entry(row.get(0)).or_default().push((row.get(1), row.get(2)));
    }
    tables
}

/// The columns that no two rows share, by each way in which the table says so.
async fn keys(client: &Client, table: &str) -> Vec<BTreeSet<String>> {
    let find = "SELECT ARRAY(SELECT a.attname::text FROM pg_attribute AS a
                             WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey))
                FROM pg_index AS i
                WHERE i.indrelid = ('punctual_internal.' || $1)::regclass AND i.indisunique AND i.indpred IS NULL";
    let found = client.query(find, &[&table]).await.unwrap();
    found.iter().map(|row| row.get::<_, Vec<String>>(0).into_iter().collect()).collect()
}

#[test]
fn c02_every_table_and_column_is_carried_or_left_behind_with_a_reason() {
    block_on(async {
        let database = fresh_database().await;
        let client = database.connect().await;
        let left = |name: &str| LEFT_BEHIND.iter().any(|(left, _)| *left == name);
        let mut carried: BTreeMap<_, _> = TABLES.iter().map(|table| (table.name, table)).collect();
        for (name, columns) in columns(&client).await {
            let Some(table) = carried.remove(name.as_str()) else {
                assert!(left(&name), "`{name}` is neither carried nor left behind");
                continue;
            };
            let mut listed: BTreeMap<_, _> = table.columns.iter().map(|column| (column.name, column)).collect();
            for (column, kind) in columns {
                match listed.remove(column.as_str()) {
                    Some(known) => assert!(declared(known).contains(&kind.as_str()), "{name}.{column} is {kind}"),
                    None => assert!(left(&format!("{name}.{column}")), "`{name}.{column}` is forgotten"),
                }
            }
            assert!(listed.is_empty(), "columns that `{name}` does not have: {listed:?}");
            let key: BTreeSet<_> = table.columns[..table.key].iter().map(|column| column.name.to_owned()).collect();
            let keys = keys(&client, &name).await;
            assert!(keys.contains(&key), "no two rows of `{name}` share its key: {keys:?}");
        }
        assert!(carried.is_empty(), "tables that are not there: {:?}", carried.keys());
    });
}
