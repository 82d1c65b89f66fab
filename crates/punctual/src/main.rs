//! The `punctual` command line.

#![cfg_attr(not(feature = "server"), expect(dead_code, reason = "a smaller build lacks commands, not what they share"))]

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
