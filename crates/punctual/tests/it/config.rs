//! Where settings come from, and which one counts.

use crate::serve::punctual;
use serde_json::Value;
use std::path::Path;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn run(&self, args: &[&str], env: &[(&str, &str)]) -> std::process::Output {
        let project = self.0.path().join("project");
        std::fs::create_dir_all(&project).unwrap();
        let mut command = punctual(args);
        command.current_dir(project).env("XDG_CONFIG_HOME", self.0.path().join("config")).envs(env.iter().copied());
        command.output().unwrap()
    }

    /// The value of a setting and where it comes from.
    fn value(&self, key: &str, env: &[(&str, &str)]) -> (String, String) {
        let output = self.run(&["config", "--json"], env);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        let item = all["items"].as_array().unwrap().iter().find(|item| item["key"] == key).unwrap();
        (item["value"].as_str().unwrap_or_default().to_owned(), item["origin"].as_str().unwrap().to_owned())
    }
}

fn pair(value: &str, origin: impl AsRef<Path>) -> (String, String) {
    (value.to_owned(), origin.as_ref().to_str().unwrap().to_owned())
}

#[test]
fn a_variable_counts_more_than_a_file_and_a_project_more_than_its_user() {
    let home = Home::new();
    assert_eq!(home.value("lease", &[]), pair("15s", "default"));
    let users = home.write("config/punctual/punctual.toml", "lease = \"20s\"\nconcurrency = 3\n");
    assert_eq!(home.value("lease", &[]), pair("20s", &users));
    home.write("project/punctual.toml", "lease = \"30s\"\nhosts = [\"a.example\", \"b.example\"]\n");
    assert_eq!(home.value("lease", &[]), pair("30s", "punctual.toml"));
    assert_eq!(home.value("concurrency", &[]), pair("3", &users));
    assert_eq!(home.value("hosts", &[]), pair("a.example,b.example", "punctual.toml"));
    let kept = home.write("lease.txt", "40s\n");
    assert_eq!(home.value("lease", &[("PUNCTUAL_LEASE_FILE", &kept)]).0, "40s");
    let both = [("PUNCTUAL_LEASE_FILE", kept.as_str()), ("PUNCTUAL_LEASE", "50s")];
    assert_eq!(home.value("lease", &both), pair("50s", "PUNCTUAL_LEASE"));
    let named = home.write("other.toml", "lease = \"60s\"");
    assert_eq!(home.value("lease", &[("PUNCTUAL_CONFIG", &named)]), pair("60s", &named));
}

#[test]
fn what_a_file_says_is_obeyed_and_a_flag_counts_more() {
    let home = Home::new();
    home.write("project/punctual.toml", "lease = \"1s\"\nheartbeat = \"1s\"\n");
    let refused = home.run(&["worker"], &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("at least three heartbeats"));
    home.write("project/punctual.toml", "server = \"http://127.0.0.1:1\"\n");
    assert_eq!(home.run(&["job", "ls"], &[]).status.code(), Some(6));
    let data = home.0.path().join("data");
    let flags = ["job", "ls", "--server", "gopher://x", "--data", data.to_str().unwrap()];
    assert_eq!(home.run(&flags, &[]).status.code(), Some(2));
}

#[test]
fn a_secret_in_a_file_is_used_and_never_shown() {
    let home = Home::new();
    let file = home.write("token.txt", "punctual_canary_canary\n");
    let shown = home.run(&["config"], &[("PUNCTUAL_TOKEN_FILE", &file)]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("(hidden)") && !shown.contains("canary"), "{shown}");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_place() {
    for (text, words) in [
        ("lese = \"1s\"", "did you mean `lease`?"),
        ("lease = {}", "must be a text"),
        ("lease = [\"1s\"]", "not a list"),
        ("lease = ", "punctual.toml"),
        ("colour = 1", "`punctual config` lists"),
    ] {
        let home = Home::new();
        home.write("project/punctual.toml", text);
        let refused = home.run(&["job", "ls"], &[]);
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(words) && complaint.contains("punctual.toml"), "{text}: {complaint}");
    }
    let home = Home::new();
    assert_eq!(home.run(&["config"], &[("PUNCTUAL_CONFIG", "/nowhere.toml")]).status.code(), Some(2));
    assert_eq!(home.run(&["config"], &[("PUNCTUAL_TOKEN_FILE", "/nowhere")]).status.code(), Some(2));
}

#[test]
fn completions_and_manual_pages_are_made_from_the_command_line() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = home.run(&["completions", shell], &[]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("reschedule"), "{shell}");
    }
    let folder = home.0.path().join("man");
    assert!(home.run(&["man", folder.to_str().unwrap()], &[]).status.success());
    let page = std::fs::read_to_string(folder.join("punctual-schedule-add.1")).unwrap();
    assert!(page.contains("nightly"), "{page}");
    assert!(folder.join("punctual.1").exists());
}
