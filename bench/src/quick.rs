//! What `punctual bench` shows users, on a durable throw-away server and on an SQLite file.

use crate::load::Outcome;
use punctual_measure::quick::{Place, Scale, Wanted, look};
use punctual_testkit::postgres::PrivateServer;

/// Prints both tables and verdicts.
pub fn run() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite:{}", folder.path().join("quick.db").display());
    runtime.block_on(async {
        look_at(&server.url("postgres")).await?;
        println!();
        look_at(&file).await
    })
}

async fn look_at(url: &str) -> Outcome<()> {
    let scale = Scale::default();
    let place = Place::make(url, Wanted::OfItsOwn, scale.bytes_at_most()).await?;
    let found = look(&place, scale, &|words| eprintln!("{words}")).await;
    place.remove().await?;
    print!("{}", found?);
    Ok(())
}
