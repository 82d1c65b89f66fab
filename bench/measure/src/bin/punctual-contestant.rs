//! One side of the comparison with the peers, in a process of its own: Punctual itself, or hand-written SQL.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_measure::contestant::main()
}
