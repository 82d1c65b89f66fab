//! The container and Kubernetes files use commands, flags, variables and paths that exist.

use crate::serve::{Server, punctual};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// Variables that are read before there are settings, or when the program is built.
const NOT_SETTINGS: [&str; 4] = ["PUNCTUAL_LOG", "PUNCTUAL_CONFIG", "PUNCTUAL_DASHBOARD", "PUNCTUAL_DASHBOARD_DIST"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files and their texts: all below `deploy/`, and the page about them.
fn texts() -> Vec<(String, String)> {
    let mut paths = vec![root().join("docs/deploy.md")];
    let mut folders = vec![root().join("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                // Somebody's own secrets are none of ours.
                true if path.ends_with("secrets") => {}
                true => folders.push(path),
                false => paths.push(path),
            }
        }
    }
    assert!(paths.len() >= 6, "{paths:?}");
    let text = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
    paths.into_iter().map(text).collect()
}

fn help(command: &[&str]) -> Option<String> {
    let output = punctual(&[command, &["--help"]].concat()).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a23_every_variable_of_the_deployment_files_is_a_setting() {
    let listed = punctual(&["config", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let known: BTreeSet<&str> =
        listed["items"].as_array().unwrap().iter().filter_map(|it| it["variable"].as_str()).collect();
    let mut used = 0;
    for (path, text) in texts() {
        for (at, _) in text.match_indices("PUNCTUAL_") {
            let name: String = text[at..].chars().take_while(|it| it.is_ascii_uppercase() || *it == '_').collect();
            // `PUNCTUAL_*_FILE` names a kind of variable, and no variable.
            if name == "PUNCTUAL_" {
                continue;
            }
            let setting = name.strip_suffix("_FILE").filter(|it| known.contains(it)).unwrap_or(&name);
            assert!(known.contains(setting) || NOT_SETTINGS.contains(&setting), "{path}: {name} is no setting");
            used += 1;
        }
    }
    assert!(used > 20, "only {used} were looked at");
}

/// The commands in a text: lists such as `["worker", "--live"]`, and lines of a document that begin with the program.
fn commands(path: &str, text: &str) -> Vec<Vec<String>> {
    let lists = text.match_indices('[').filter_map(|(at, _)| {
        let list = &text[at..=at + text[at..].find(']')?];
        serde_json::from_str::<Vec<String>>(list).ok()
    });
    let lists = lists.map(|words| words.into_iter().filter(|word| word != "CMD").collect());
    let lines = text.lines().filter(|_| Path::new(path).extension().is_some_and(|it| it == "md"));
    // What comes behind another program's words, such as `kubectl exec … -- punctual`, is ours as well.
    let lines = lines.filter_map(|line| {
        let at = if line.starts_with("punctual ") { 0 } else { line.find("-- punctual ")? + 3 };
        Some(line[at..].split('#').next()?.split_whitespace().map(str::to_owned).collect())
    });
    lists.chain(lines).collect()
}

#[test]
fn a23_every_command_and_flag_of_the_deployment_files_exists() {
    let overview = help(&[]).unwrap();
    let mut checked = 0;
    for (path, text) in texts() {
        for words in commands(&path, &text) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (command, is_named) = match words.split_first() {
                Some((&"punctual", rest)) => (rest, true),
                _ => (&words[..], false),
            };
            let Some(first) = command.first() else { continue };
            let exists = overview.lines().any(|line| line.split_whitespace().next() == Some(first));
            if !exists {
                assert!(!is_named, "{path}: there is no `punctual {first}`");
                continue;
            }
            // The longest beginning that is a command; what follows are its flags and values.
            let count = (1..=2).filter(|count| command.get(..*count).is_some_and(|it| !it[count - 1].starts_with('-')));
            let about = count.filter_map(|count| help(&command[..count])).next_back().unwrap();
            for flag in command.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap();
                assert!(
                    about.contains(&format!("{flag} ")) || about.contains(&format!("{flag}\n")),
                    "{path}: {words:?}: {flag}"
                );
            }
            checked += 1;
        }
    }
    assert!(checked >= 8, "only {checked} were looked at");
}

#[test]
fn a23_the_probes_of_the_manifests_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on(&["--data", folder.path().to_str().unwrap()]);
    let manifest = std::fs::read_to_string(root().join("deploy/kubernetes/server.yaml")).unwrap();
    let paths: BTreeSet<&str> = manifest.lines().filter_map(|line| line.trim().strip_prefix("path: /")).collect();
    assert_eq!(paths, BTreeSet::from(["livez", "readyz"]));
    for path in paths {
        let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
}
