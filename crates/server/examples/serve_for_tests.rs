//! Serves a fresh store in a temporary folder with a little in it, prints its address and an admin's token, and stops
//! when its standard input is closed: what `cargo xtask api-check` runs schemathesis against.

use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_server::{AppState, Settings, first_admin_token, serve};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(&folder.path().join("api.db"), SqliteOptions::default())?);
    let target = Target::command(["true"]);
    let nightly = ScheduleDefinition::new(Name::new("nightly")?, TimingSpec::cron("0 2 * * *", "UTC"), target.clone());
    store.create_schedule(nightly).await?;
    store.create_template(Name::new("usual")?, NewJob::new(target.clone()), vec![]).await?;
    store.enqueue_jobs(vec![NewJob::new(target); 3]).await?;
    let token = first_admin_token(store.as_ref()).await?.ok_or("there is a token already")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{} {}", listener.local_addr()?, token.reveal());
    // What is sent without a token comes as fast as the rest.
    let settings = Settings { stranger_rate: NonZeroU32::new(100_000).ok_or("zero")?, ..Settings::default() };
    let until_closed = async {
        let mut rest = Vec::new();
        // However the input ends, it has ended.
        let _ended = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    Ok(serve(listener, AppState::new(store, settings), until_closed).await?)
}
