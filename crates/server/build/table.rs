//! The dashboard's files as a table in Rust: what each is, a mark of its content, its bytes, and the same compressed.

use crate::bundle::{Found, hex};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Where the server puts the path below which it is found.
const BASE: &str = "<base href=\"/\"";

/// Writes `dashboard.rs` into a folder, an expression of the type `Dashboard`, and beside it what it includes.
pub fn write(found: &Found, out: &Path) -> io::Result<()> {
    let text = match found {
        Found::Built(dist) => format!("Dashboard::of(&[\n{}])\n", rows(dist, &out.join("dashboard"))?),
        Found::LeftOut { reason, remedy } => missing(reason, remedy, true),
        Found::Failed { reason, remedy } => missing(reason, remedy, false),
    };
    fs::write(out.join("dashboard.rs"), text)
}

fn missing(reason: &str, remedy: &str, on_purpose: bool) -> String {
    format!("Dashboard::missing(Missing {{ reason: {reason:?}, remedy: {remedy:?}, on_purpose: {on_purpose} }})\n")
}

fn rows(dist: &Path, copies: &Path) -> io::Result<String> {
    if copies.exists() {
        fs::remove_dir_all(copies)?;
    }
    fs::create_dir_all(copies)?;
    let mut paths = Vec::new();
    list(dist, "", &mut paths)?;
    paths.sort();
    let mut rows = String::new();
    for (number, path) in paths.iter().enumerate() {
        let bytes = fs::read(dist.join(path))?;
        if path == "index.html" && String::from_utf8_lossy(&bytes).matches(BASE).count() != 1 {
            return Err(io::Error::other(format!("index.html must have `{BASE}` once")));
        }
        let mark = hex(&Sha256::digest(&bytes)[..16]);
        let gzip = gzipped(&bytes)?;
        let include = |name: String| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/dashboard/{name}\"))");
        fs::write(copies.join(number.to_string()), &bytes)?;
        let small = if gzip.len() < bytes.len() {
            fs::write(copies.join(format!("{number}.gz")), &gzip)?;
            format!("Some({})", include(format!("{number}.gz")))
        } else {
            "None".to_owned()
        };
        let (kind, bytes) = (kind_of(path), include(number.to_string()));
        writeln!(
            rows,
            "    DashboardFile {{ path: {path:?}, kind: {kind:?}, mark: {mark:?}, bytes: {bytes}, gzip: {small} }},"
        )
        .map_err(io::Error::other)?;
    }
    Ok(rows)
}

fn list(folder: &Path, below: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| io::Error::other(format!("{} is no text", name.display())))?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.path().is_dir() {
            list(folder, &path, paths)?;
        } else if Path::new(&path).extension().is_none_or(|kind| kind != "map") {
            paths.push(path);
        }
    }
    Ok(())
}

fn gzipped(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "webmanifest" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
