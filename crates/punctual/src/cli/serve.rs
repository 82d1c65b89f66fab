//! `punctual serve`: a node that has a data folder of its own and tells others that it is there.

use clap::Args;

use super::data::DataFolder;
use super::worker::WorkerArgs;
use super::{Output, Stop};

/// Run a server: everything a worker does, on a data folder that no other server has.
#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    node: WorkerArgs,
}

impl ServeArgs {
    pub(crate) fn run(self, out: &mut Output) -> Result<(), Stop> {
        let folder = DataFolder::open(self.node.data())?;
        let url = self.node.database().map_or_else(|| folder.database_url(), str::to_owned);
        let serving = folder.serve(&super::worker::without_password(&url))?;
        let done = self.node.run_on(&url, out);
        drop(serving);
        done
    }
}
