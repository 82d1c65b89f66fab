//! The walk in the README, line by line as it is printed, on both stores.

use crate::serve::punctual;
use crate::world::{World, on_both_stores};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What is typed, and what is printed.
struct Step {
    typed: String,
    printed: Vec<String>,
}

fn walk() -> Vec<Step> {
    let readme = include_str!("../../../../README.md");
    let block = readme.split_once("```console\n").unwrap().1.split_once("```").unwrap().0;
    let mut steps = Vec::<Step>::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(typed) => steps.push(Step { typed: typed.to_owned(), printed: Vec::new() }),
            None => steps.last_mut().unwrap().printed.push(line.to_owned()),
        }
    }
    steps
}

/// Whether a line is as printed; `…` stands for anything.
pub fn is_like(line: &str, printed: &str) -> bool {
    let mut rest = line;
    let mut parts = printed.split('…');
    let Some(first) = parts.next() else { return line.is_empty() };
    let Some(behind) = rest.strip_prefix(first) else { return false };
    rest = behind;
    let parts: Vec<&str> = parts.map(str::trim).collect();
    for part in &parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || parts.last().is_some_and(|last| last.is_empty())
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// A shell in which the program is found, with an empty home and a port of its own.
fn shell(home: &Path, typed: &str) -> Command {
    let program = Path::new(punctual(&[]).get_program()).parent().unwrap().to_owned();
    let path = std::env::join_paths([program.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", typed]).current_dir(home).env_clear();
    command.env("PATH", path).env("HOME", home).env("PUNCTUAL_LISTEN", "127.0.0.1:0").env("TZ", "UTC");
    command
}

on_both_stores! {
    async fn the_walk_in_the_readme_works_as_printed(world: &World) {
        let home = tempfile::tempdir().unwrap();
        let mut server = None;
        for Step { typed, printed } in walk() {
            let said = if let Some(begun) = typed.strip_suffix(" &") {
                // `exec`, so that ending it ends the server.
                let typed = format!("exec {begun} --database '{}' 2>&1", world.url);
                let mut child = shell(home.path(), &typed).stdout(Stdio::piped()).spawn().unwrap();
                let mut lines = BufReader::new(child.stdout.take().unwrap());
                server = Some(Running(child));
                let mut said = String::new();
                while !said.lines().any(|line| line.starts_with("ready: ")) {
                    assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
                }
                std::thread::spawn(move || lines.read_to_string(&mut String::new()));
                said
            } else {
                let output = shell(home.path(), &typed).output().unwrap();
                assert!(output.status.success(), "{typed}: {}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            };
            // The port, the store and what else differs from machine to machine.
            let lines: Vec<&str> = said.lines().collect();
            let printed: Vec<String> = printed
                .iter()
                .map(|line| line.replace("127.0.0.1:7878", "127.0.0.1:…").replace("works on sqlite:…", "works on …"))
                .collect();
            let open_ended = printed.last().is_some_and(|line| line == "…");
            assert!(lines.len() == printed.len() || (open_ended && lines.len() + 1 >= printed.len()), "{typed}:\n{said}");
            for (line, printed) in lines.iter().zip(&printed) {
                assert!(is_like(line, printed), "{typed}: `{line}` is not like `{printed}`");
            }
        }
        drop(server);
    }
}

#[test]
fn a_line_is_compared_with_its_gaps() {
    assert!(is_like("a b c", "a … c"));
    assert!(is_like("a b c", "a …"));
    assert!(!is_like("a b c", "a … d"));
    assert!(!is_like("a b c", "a b"));
    assert!(is_like("x", "x") && is_like("anything", "…"));
}
