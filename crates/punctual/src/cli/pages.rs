//! `punctual completions` and `punctual man`: made from the command line itself.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::{Output, Stop};

/// Print what a shell needs to complete commands
#[derive(Args)]
#[command(after_help = "Examples:\n  punctual completions bash > /etc/bash_completion.d/punctual\n  \
    punctual completions fish > ~/.config/fish/completions/punctual.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Write the manual: one page for each command
#[derive(Args)]
pub(crate) struct ManArgs {
    /// The folder to write to; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl CompletionsArgs {
    pub(crate) fn run(&self, mut command: Command, out: &mut Output) -> Result<(), Stop> {
        use std::io::Write;
        // Written to memory first: the generator gives up badly when the reader goes away.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "punctual", &mut text);
        Ok(out.write_all(&text)?)
    }
}

impl ManArgs {
    pub(crate) fn run(&self, command: Command, out: &mut Output) -> Result<(), Stop> {
        use std::io::Write;
        let failed = |error: std::io::Error| {
            Stop::failure(format!("cannot write the manual to {}: {error}", self.folder.display()))
        };
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        clap_mangen::generate_to(command, &self.folder).map_err(failed)?;
        Ok(writeln!(out, "wrote the manual to {}", self.folder.display())?)
    }
}
