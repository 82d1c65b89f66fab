//! One contestant in one scenario, for trying it: on a durable throw-away server, or on a file.

use super::{Contestant, Language, Places, install, named};
use crate::load::Outcome;
use punctual_testkit::postgres::{Database, PrivateServer};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(10);

/// Shows all peers, or plays what the request says with the one that is named.
pub fn run(name: Option<&str>, request: Option<&str>) -> Outcome<()> {
    let places = Places::find()?;
    let names: Vec<String> = name.into_iter().map(str::to_owned).collect();
    let meant = named(&places, &names)?;
    for language in Language::ALL.into_iter().filter(|language| meant.iter().any(|peer| peer.needs(*language))) {
        install(&places, language)?;
    }
    // Some programs can be found only now.
    let meant = named(&places, &names)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (Some(_), [contestant]) = (name, meant.as_slice()) else {
            for contestant in &meant {
                println!("{}", contestant.about().await?);
            }
            return Ok(());
        };
        let usage = "give what to play, as {\"scenario\":\"drain\",\"settings\":\"best\",\"jobs\":1000}";
        let request: Value =
            serde_json::from_str(request.ok_or(usage)?).map_err(|error| format!("{usage}: {error}"))?;
        on_an_empty_database(contestant, request).await
    })
}

async fn on_an_empty_database(contestant: &Contestant, mut request: Value) -> Outcome<()> {
    let stores = contestant.about().await?["stores"].clone();
    let store = request.as_object_mut().and_then(|request| request.remove("store")).unwrap_or(stores[0].clone());
    if store == json!("sqlite") {
        let folder = tempfile::tempdir()?;
        request["url"] = json!(format!("sqlite:{}", folder.path().join("peer.db").display()));
        return play(contestant, &request).await;
    }
    let server = PrivateServer::start(true);
    let database = Database::empty_on(&server).await;
    request["url"] = json!(database.url());
    play(contestant, &request).await
}

async fn play(contestant: &Contestant, request: &Value) -> Outcome<()> {
    let mut running = contestant.start(request, PATIENCE)?;
    let ready = running.ready().await?;
    println!("{ready} after {:.2} s", running.ready_after().unwrap_or_default().as_secs_f64());
    running.go().await?;
    let done = running.done().await?;
    println!("{done}, {} kB", running.peak_memory_kb().unwrap_or_default());
    Ok(())
}
