//! The files of a manifest: read, put together into one, and asked where something stands in them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::show;
use crate::cli::document::{Document, Format, Place, dotted, member};
use crate::cli::{Exit, Stop};

/// One document of a file.
struct Part {
    file: String,
    document: Document,
}

/// A manifest that was put together from files.
pub(crate) struct Files {
    /// What is sent.
    pub(crate) manifest: Value,
    parts: Vec<Part>,
    /// Which part says a thing, by its pointer.
    said_by: BTreeMap<String, usize>,
}

impl Files {
    /// Reads files, folders and standard input (`-`). What is wrong with them is told all at once.
    pub(crate) fn read(paths: &[PathBuf], stdin: Format, owner: Option<&str>) -> Result<Self, Stop> {
        let mut parts = Vec::new();
        let mut wrong = Vec::new();
        for path in paths {
            for (file, format, text) in texts(path, stdin)? {
                match Document::parse(format, &text) {
                    Ok(documents) => {
                        parts.extend(documents.into_iter().map(|document| Part { file: file.clone(), document }));
                    }
                    Err(broken) => wrong.push(format!("{}{}", place(&file, broken.place), broken.problem)),
                }
            }
        }
        let mut files = Self { manifest: json!({}), parts, said_by: BTreeMap::new() };
        files.put_together(&mut wrong);
        if let Some(owner) = owner {
            files.name_owner(owner, &mut wrong);
        }
        match wrong.as_slice() {
            [] => Ok(files),
            some => Err(told(Exit::Usage, "nothing was sent", some)),
        }
    }

    fn put_together(&mut self, wrong: &mut Vec<String>) {
        let mut whole = Map::new();
        for n in 0..self.parts.len() {
            let document = self.parts[n].document.value.clone();
            let Value::Object(sections) = document else {
                wrong.push(format!("{}: is no table; a manifest has owner, schedules and so on", self.parts[n].file));
                continue;
            };
            for (title, section) in sections {
                let at = member("", &title);
                match (section, whole.get_mut(&title)) {
                    // What is left empty says nothing; another file may say it.
                    (Value::Null, _) => {}
                    (Value::Object(things), _) => {
                        let all = whole.entry(title).or_insert_with(|| json!({}));
                        self.add_things(n, &at, things, all, wrong);
                    }
                    (section, None) => {
                        self.said_by.insert(at, n);
                        whole.insert(title, section);
                    }
                    (section, Some(before)) if *before == section => {}
                    (_, Some(_)) => wrong.push(self.said_twice(n, &at)),
                }
            }
        }
        self.manifest = Value::Object(whole);
    }

    fn add_things(&mut self, n: usize, at: &str, things: Map<String, Value>, all: &mut Value, wrong: &mut Vec<String>) {
        let Value::Object(all) = all else {
            wrong.push(self.said_twice(n, at));
            return;
        };
        self.said_by.entry(at.to_owned()).or_insert(n);
        for (name, thing) in things {
            let at = member(at, &name);
            if self.said_by.contains_key(&at) {
                wrong.push(self.said_twice(n, &at));
                continue;
            }
            self.said_by.insert(at, n);
            all.insert(name, thing);
        }
    }

    fn said_twice(&self, n: usize, at: &str) -> String {
        let here = place(&self.parts[n].file, self.parts[n].document.place_of(at));
        let there = self.where_is(at);
        format!("{here}{}: is said at {} already; say it once", dotted(at), there.trim_end_matches(": "))
    }

    fn name_owner(&mut self, owner: &str, wrong: &mut Vec<String>) {
        match self.manifest.get("owner").and_then(Value::as_str) {
            Some(said) if said != owner => {
                let there = self.where_is("/owner");
                wrong.push(format!("{there}owner: is `{said}`, and --owner is `{owner}`; say one of the two"));
            }
            _ => self.manifest["owner"] = json!(owner),
        }
    }

    /// Where something stands, to begin a line with: `file.toml:12:3: `.
    fn where_is(&self, pointer: &str) -> String {
        let mut at = pointer;
        loop {
            if let Some(n) = self.said_by.get(at) {
                let part = &self.parts[*n];
                return place(&part.file, part.document.place_of(pointer));
            }
            match at.rfind('/') {
                Some(end) if end > 0 => at = &at[..end],
                _ => break,
            }
        }
        self.parts.first().map_or_else(String::new, |part| format!("{}: ", part.file))
    }

    /// What a server refused, with the lines that it is about.
    pub(crate) fn refusal(&self, exit: Exit, problem: &Value) -> Option<Stop> {
        let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let errors = problem["errors"].as_array().filter(|errors| !errors.is_empty())?;
        let mut lines: Vec<(String, String)> = Vec::new();
        for wrong in errors {
            let pointer = text(wrong, "pointer");
            let remedy = Some(text(wrong, "remedy")).filter(|remedy| !remedy.is_empty());
            let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
            let line = format!("{}: {}{remedy}", dotted(&pointer), text(wrong, "detail"));
            lines.push((self.where_is(&pointer), line));
        }
        let lines: Vec<String> = lines.into_iter().map(|(at, line)| format!("{at}{line}")).collect();
        Some(told(exit, &text(problem, "detail"), &lines))
    }
}

fn told(exit: Exit, whole: &str, lines: &[String]) -> Stop {
    let lines: Vec<String> = lines.iter().map(|line| format!("  {}", show::visible(line))).collect();
    Stop::Failed(exit, format!("{}:\n{}", show::visible(whole), lines.join("\n")))
}

fn place(file: &str, place: Option<Place>) -> String {
    match place {
        Some(Place { line, column }) => format!("{file}:{line}:{column}: "),
        None => format!("{file}: "),
    }
}

/// The texts behind a path: one, or those of a folder and the folders in it, in order of name.
fn texts(path: &Path, stdin: Format) -> Result<Vec<(String, Format, String)>, Stop> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(vec![("standard input".to_owned(), stdin, text)]);
    }
    let name = path.display().to_string();
    let unread = |error: std::io::Error| Stop::usage(format!("{name} cannot be read: {error}"));
    if path.is_dir() {
        let mut found = Vec::new();
        collect(path, &mut found).map_err(unread)?;
        if found.is_empty() {
            return Err(Stop::usage(format!("{name} holds no file that ends in .toml, .yaml, .yml or .json")));
        }
        let each = found.iter().map(|file| texts(file, stdin));
        return Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    let Some(format) = Format::of(path) else {
        return Err(Stop::usage(format!("{name} does not end in .toml, .yaml, .yml or .json; name it by what it is")));
    };
    let text = std::fs::read_to_string(path).map_err(unread)?;
    Ok(vec![(name.clone(), format, text)])
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // What begins with a dot is the editor's or the repository's.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, found)?;
        } else if Format::of(&path).is_some() {
            found.push(path);
        }
    }
    Ok(())
}
