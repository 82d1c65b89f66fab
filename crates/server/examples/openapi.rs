//! Prints the OpenAPI document; `cargo xtask openapi` commits it.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(punctual_server::openapi::text().as_bytes())
}
