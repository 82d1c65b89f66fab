//! `punctual demo`: a store in a temporary folder, a few schedules with real commands, and a live list of them.

mod cast;
mod show;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use punctual_core::duration::parse_duration;
use punctual_core::store::{Store, StoreError};
use punctual_engine::node::{self, NodeOptions};
use punctual_engine::targets::command::CommandExecutor;
use punctual_engine::work::Executors;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::sync::watch as flag;

use self::show::Show;
use self::watch::Watcher;
use super::signals::Signals;
use super::{Output, Stop};

const EXAMPLES: &str = "\
Examples:
  punctual demo
  punctual demo --for 10s --json";

/// How often the list is drawn.
const TICK: Duration = Duration::from_millis(100);

/// How long running commands may go on when the demo stops.
const GRACE: Duration = Duration::from_secs(2);

/// See schedules fire, in a store of their own that is removed at the end.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Stop by itself after this long, such as 10s [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    run_for: Option<SignedDuration>,
    /// Print one JSON object a line instead of the live list
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.play(out))
    }

    async fn play(&self, out: &mut Output) -> Result<(), Stop> {
        // Before there is a folder that an early Ctrl-C would leave behind.
        let mut signals = Signals::listen()?;
        let run_for = self.run_for;
        let stop = async move {
            tokio::select! {
                () = elapsed(run_for) => {}
                () = signals.next() => {}
            }
        };
        let folder = tempfile::Builder::new().prefix("punctual-demo-").tempdir()?;
        let store = SqliteStore::open(&folder.path().join("demo.db"), SqliteOptions::default())?;
        let mut show = Show::new(self.json);
        show.begin(out, folder.path())?;
        let mut watcher = Watcher::new(cast::assemble(&store).await?);

        let (end, ended) = flag::channel(false);
        let until_ended = || {
            let mut ended = ended.clone();
            async move { drop(ended.wait_for(|ended| *ended).await) }
        };
        let executors = Executors::default().with("command", Arc::new(CommandExecutor::default()));
        let options = NodeOptions { name: "demo".to_owned(), shutdown_grace: GRACE, ..NodeOptions::default() };
        let signals = node::Signals { gently: Box::pin(until_ended()), now: Box::pin(std::future::pending()) };
        let working = node::run_until(Arc::new(store.clone()), executors, options, signals, |_| {});
        let showing = async {
            let shown = show_until(stop, &store, &mut watcher, &mut show, out).await;
            end.send_replace(true);
            shown
        };
        let (worked, shown) = tokio::join!(working, showing);
        shown?;
        worked?;
        let events = watcher.last_look(&store).await?;
        show.tick(out, &watcher, &events, store.now().await?)?;
        show.end(out, &watcher.summary())?;
        drop(store);
        Ok(folder.close()?)
    }
}

async fn show_until(
    stop: impl Future<Output = ()>, store: &dyn Store, watcher: &mut Watcher, show: &mut Show, out: &mut Output,
) -> Result<(), Stop> {
    let mut stop = std::pin::pin!(stop);
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

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::failure(error.to_string())
    }
}
