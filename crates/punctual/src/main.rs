//! The `punctual` command line.

fn main() {}
