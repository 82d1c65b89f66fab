//! Makes an empty database on a throw-away PostgreSQL, prints its address, and drops it when its standard input is closed:
//! what the end-to-end tests of the dashboard work on.

use punctual_testkit::postgres::Database;
use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let database = runtime.block_on(Database::empty());
    writeln!(std::io::stdout(), "{}", database.url())?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    drop(database);
    Ok(())
}
