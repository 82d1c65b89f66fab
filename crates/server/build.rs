//! Puts the dashboard into the crate: as a table of files, or as the reason why there is none.

#[path = "build/bundle.rs"]
mod bundle;
#[path = "build/table.rs"]
mod table;

use bundle::{Found, Wish, Wishes};
use std::path::{Path, PathBuf};

fn main() {
    let folder = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_default());
    let sources = folder("CARGO_MANIFEST_DIR").join("../../dashboard");
    let out = folder("OUT_DIR");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={}", bundle::WISH);
    println!("cargo::rerun-if-env-changed={}", bundle::DIST);
    watch(&sources);
    if let Some(dist) = std::env::var_os(bundle::DIST).filter(|dist| !dist.is_empty()) {
        println!("cargo::rerun-if-changed={}", Path::new(&dist).display());
    }

    let found = found(&sources, &out);
    if let Found::Failed { reason, remedy } = &found {
        // A path that never exists: the next build tries again, instead of keeping a placeholder silently.
        println!("cargo::rerun-if-changed={}", out.join("never").display());
        // Whoever has said something that means nothing wanted something.
        let wish = Wish::read(std::env::var(bundle::WISH).ok().as_deref());
        let required = wish.map_or(true, |wish| wish == Wish::Require);
        let kind = if required { "error" } else { "warning" };
        println!("cargo::{kind}=the dashboard is left out: {reason}; {remedy}");
    }
    if let Err(error) = table::write(&found, &out) {
        println!("cargo::error=the dashboard cannot be put into {}: {error}", out.display());
    }
}

fn found(sources: &Path, out: &Path) -> Found {
    if std::env::var_os("CARGO_FEATURE_DASHBOARD").is_none() {
        return Found::left_out("the feature `dashboard` is off", "build with the feature `dashboard`");
    }
    if std::env::var_os("DOCS_RS").is_some() {
        return Found::left_out("documentation has none", "build the program itself");
    }
    match Wish::read(std::env::var(bundle::WISH).ok().as_deref()) {
        Ok(wish) => {
            let dist = std::env::var_os(bundle::DIST).filter(|dist| !dist.is_empty()).map(PathBuf::from);
            let cache = target_folder(out).join("dashboard");
            Wishes { sources: sources.to_owned(), cache, dist, wish, path: std::env::var_os("PATH") }.find()
        }
        Err(reason) => Found::failed(reason, "set it to require or skip, or not at all"),
    }
}

/// The folder that all profiles share: cargo's own folders for this script are `TARGET[/TRIPLE]/PROFILE/build/…/out`.
fn target_folder(out: &Path) -> PathBuf {
    let build = out.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "build"));
    let mut folder = build.and_then(|build| build.ancestors().nth(2)).unwrap_or(out);
    if folder.file_name().is_some_and(|name| Some(name) == std::env::var_os("TARGET").as_deref()) {
        folder = folder.parent().unwrap_or(folder);
    }
    folder.to_owned()
}

/// Whatever the build reads, and not the end-to-end tests beside it: a change of theirs must not build anything anew.
fn watch(sources: &Path) {
    for entry in std::fs::read_dir(sources).into_iter().flatten().flatten() {
        if !bundle::IGNORED.iter().any(|ignored| entry.file_name() == *ignored) {
            println!("cargo::rerun-if-changed={}", entry.path().display());
        }
    }
}
