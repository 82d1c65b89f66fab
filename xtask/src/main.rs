//! What a developer and CI run: deps, test, tidy, bench, sim, mutants.

fn main() {}
