//! `punctual demo`: a throw-away store with a week behind it, work going on in it, the API on top, and a live list.

#[cfg(feature = "server")]
mod api;
mod cast;
mod dice;
mod history;
mod live;
mod script;
mod show;
mod stage;
mod traffic;
mod verdict;
mod watch;

#[cfg(feature = "server")]
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::SignedDuration;
use punctual_core::duration::parse_duration;
use punctual_core::store::Store;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::sync::watch as flag;

use self::script::World;
use self::show::{Opening, Show};
use self::watch::Watcher;
use super::signals::Signals;
use super::{Output, Stop};

const EXAMPLES: &str = "\
Examples:
  punctual demo
  punctual demo --for 10s --json
  punctual demo --headless --seed 7 --listen 127.0.0.1:0";

/// How often the list is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Look around in a store with a week of history and work going on; it is removed at the end.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Stop by itself after this long, such as 10s [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    run_for: Option<SignedDuration>,
    /// Print one JSON object a line instead of the live list
    #[arg(long)]
    json: bool,
    /// Another history: the same number gives the same one
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Show no list: print the links and wait
    #[arg(long)]
    headless: bool,
    #[cfg(feature = "server")]
    /// Where the API listens [default: 127.0.0.1:7878, or another port when that is taken]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

impl DemoArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.play(out))
    }

    async fn play(&self, out: &mut Output) -> Result<(), Stop> {
        // Before there is a folder that an early Ctrl-C would leave behind.
        let mut signals = Signals::listen()?;
        // Before there is anything to wait for, so that an address that cannot be used is told at once.
        #[cfg(feature = "server")]
        let door = api::Door::bind(self.listen)?;
        let folder = tempfile::Builder::new().prefix("punctual-demo-").tempdir()?;
        let mut show = Show::new(self.json, self.headless);
        show.begin(out, folder.path())?;
        let began = Instant::now();
        let world = Arc::new(World::ending_at(jiff::Timestamp::now(), self.seed));
        let runs = tokio::select! {
            biased;
            () = signals.next() => return Ok(folder.close()?),
            runs = stage::set(folder.path(), &world) => runs?,
        };
        let prepared_in = began.elapsed();
        let file = folder.path().join("punctual.db");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file, SqliteOptions::default())?);
        #[cfg(feature = "server")]
        let door = door.open(&store, folder.path()).await?;
        #[cfg(feature = "server")]
        let links = Some(&door.links);
        #[cfg(not(feature = "server"))]
        let links = None;
        let opening = Opening { folder: folder.path(), links, seed: self.seed, runs, prepared_in };
        let shown = self.perform(out, &mut show, signals, &store, &world, &opening).await;
        #[cfg(feature = "server")]
        door.close().await;
        drop(store);
        shown?;
        Ok(folder.close()?)
    }

    /// The present: everything that goes on until the demo stops.
    async fn perform(
        &self, out: &mut Output, show: &mut Show, mut signals: Signals, store: &Arc<dyn Store>, world: &Arc<World>,
        opening: &Opening<'_>,
    ) -> Result<(), Stop> {
        let mut watcher = Watcher::new(&**store).await?;
        show.open(out, opening, &watcher)?;
        let (end, ended) = flag::channel(false);
        let [first, second] =
            live::NODES.map(|name| live::work(name, Arc::clone(store), Arc::clone(world), ended.clone()));
        let run_for = self.run_for;
        let showing = async {
            let stop = Box::pin(async move {
                tokio::select! {
                    () = elapsed(run_for) => {}
                    () = signals.next() => {}
                }
            });
            let shown = tokio::select! {
                shown = show_until(stop, &**store, &mut watcher, show, out) => shown,
                visited = live::visits(&**store, world) => visited.map_err(Stop::from),
            };
            end.send_replace(true);
            shown
        };
        let (worked, too, shown) = tokio::join!(first, second, showing);
        shown?;
        worked.and(too)?;
        let events = watcher.last_look(&**store).await?;
        Ok(show.end(out, &events, &watcher.summary())?)
    }
}

/// What leads into the demo from outside.
#[cfg_attr(not(feature = "server"), expect(dead_code, reason = "nothing leads into a build without the API"))]
struct Links {
    /// Where the API is.
    url: String,
    /// Signs a browser in.
    sign_in: String,
    token: String,
}

async fn show_until(
    mut stop: Pin<Box<dyn Future<Output = ()>>>, store: &dyn Store, watcher: &mut Watcher, show: &mut Show,
    out: &mut Output,
) -> Result<(), Stop> {
    if !show.is_watched() {
        stop.await;
        return Ok(());
    }
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            _ = tick.tick() => {}
        }
        let events = watcher.look(store).await?;
        show.tick(out, watcher, &events, store.now().await?)?;
    }
}

async fn elapsed(time: Option<SignedDuration>) {
    match time {
        Some(time) => tokio::time::sleep(Duration::try_from(time).unwrap_or(Duration::MAX)).await,
        None => std::future::pending().await,
    }
}
