//! What a build does to have a dashboard: every way to one, and what is said when there is none.

use crate::bundle::{Found, Wish, Wishes};
use std::fs;
use std::path::{Path, PathBuf};

/// Sources that need no packages and are built by Node alone; each build is noted in a file.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        let script = "const fs = require('fs'); fs.mkdirSync('dist'); fs.copyFileSync('index.html', 'dist/index.html'); \
                      fs.appendFileSync('../builds', '.')";
        project.write("build.cjs", script);
        project
            .write("package.json", r#"{ "name": "try", "private": true, "scripts": { "build": "node build.cjs" } }"#);
        project.write(
            "package-lock.json",
            r#"{ "name": "try", "lockfileVersion": 3, "requires": true, "packages": { "": { "name": "try" } } }"#,
        );
        project.write("index.html", "one");
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path("dashboard").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn wishes(&self) -> Wishes {
        Wishes {
            sources: self.path("dashboard"),
            cache: self.path("cache"),
            dist: None,
            wish: Wish::Usual,
            path: std::env::var_os("PATH"),
        }
    }

    fn builds(&self) -> usize {
        fs::read(self.path("cache/builds")).map_or(0, |builds| builds.len())
    }
}

fn index(found: &Found) -> String {
    let Found::Built(dist) = found else { panic!("{found:?}") };
    fs::read_to_string(dist.join("index.html")).unwrap()
}

fn refused(found: Found) -> String {
    let Found::Failed { reason, remedy } = found else { panic!("{found:?}") };
    assert!(!remedy.is_empty());
    reason
}

#[test]
fn the_same_sources_are_built_once() {
    let project = Project::new();
    let first = project.wishes().find();
    assert_eq!((index(&first).as_str(), project.builds()), ("one", 1));
    assert_eq!((project.wishes().find(), project.builds()), (first, 1));
    project.write("index.html", "two");
    assert_eq!((index(&project.wishes().find()).as_str(), project.builds()), ("two", 2));
    project.write("index.html", "one");
    project.write("e2e/some.test.mjs", "a test is no part of it");
    assert_eq!((index(&project.wishes().find()).as_str(), project.builds()), ("one", 2), "it is still there");
    let beside: Vec<_> = fs::read_dir(project.path("dashboard")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name == "dist" || name == "node_modules"), "{beside:?}");
}

#[test]
fn two_at_a_time_build_once() {
    let project = Project::new();
    let find = || index(&project.wishes().find());
    std::thread::scope(|scope| {
        let both = [scope.spawn(find), scope.spawn(find)];
        for one in both {
            assert_eq!(one.join().unwrap(), "one");
        }
    });
    assert_eq!(project.builds(), 1);
}

#[test]
fn without_node_an_earlier_build_will_do_and_else_the_reason_is_told() {
    let project = Project::new();
    let without = || Wishes { path: Some(project.path("empty").into()), ..project.wishes() };
    assert_eq!(refused(without().find()), "there is no node in PATH");
    project.wishes().find();
    assert_eq!(index(&without().find()), "one");
}

#[test]
fn a_build_that_fails_says_why() {
    let project = Project::new();
    project.write("build.cjs", "console.error('no such thing'); process.exit(3)");
    let reason = refused(project.wishes().find());
    assert!(reason.starts_with("`npm run` failed: no such thing"), "{reason}");
    project.write("build.cjs", "// It does nothing.");
    assert!(refused(project.wishes().find()).contains("no dist/index.html"));
    project.write("package-lock.json", "no lock");
    let reason = refused(project.wishes().find());
    assert!(reason.starts_with("`npm ci` failed: ") && reason.contains("package-lock.json"), "{reason}");
    fs::remove_dir_all(project.path("dashboard")).unwrap();
    assert_eq!(refused(project.wishes().find()), "its sources are not beside the crate");
}

#[test]
fn a_folder_that_is_named_is_taken_as_it_is() {
    let project = Project::new();
    let given = |dist: &Path| Wishes { dist: Some(dist.to_owned()), ..project.wishes() }.find();
    assert!(refused(given(&project.path("nowhere"))).ends_with("nowhere has no index.html"));
    assert_eq!(given(&project.path("dashboard")), Found::Built(project.path("dashboard")));
    assert_eq!(project.builds(), 0);
}

#[test]
fn what_is_not_wanted_is_left_out() {
    let project = Project::new();
    let found = Wishes { wish: Wish::Skip, ..project.wishes() }.find();
    assert!(matches!(found, Found::LeftOut { .. }), "{found:?}");
    assert_eq!(Wish::read(Some("")), Ok(Wish::Usual));
    assert_eq!(Wish::read(Some("require")), Ok(Wish::Require));
    assert!(Wish::read(Some("yes")).unwrap_err().contains("PUNCTUAL_DASHBOARD=yes"));
}

#[test]
fn only_the_latest_builds_are_kept() {
    let project = Project::new();
    for number in 0..10 {
        project.write("index.html", &number.to_string());
        assert_eq!(index(&project.wishes().find()), number.to_string());
    }
    let kept = fs::read_dir(project.path("cache")).unwrap().filter_map(Result::ok);
    assert_eq!(kept.filter(|it| it.file_name().to_string_lossy().starts_with("dist-")).count(), 8);
}
