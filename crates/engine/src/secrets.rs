//! Secrets: which ones a node hands out, reading them when a run needs them, and keeping them from view afterwards.

use async_trait::async_trait;
use punctual_core::execute::Reports;
use punctual_core::expression::percent_encoded;
use punctual_core::invalid::Invalid;
use punctual_core::json::Json;
use punctual_core::records::{LogStream, Progress};
use punctual_core::secret::{Secret, SecretRef, SecretSource, Secrets};
use punctual_core::store::{FinishedRun, StoreResult};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What stands where a secret was.
pub const HIDDEN: &str = "[secret]";

/// The shortest secret. One that is shorter stands by chance in every other text, so that it could not be kept from
/// view without spoiling them all.
const SECRET_MIN_CHARS: usize = 4;

/// The longest secret.
const SECRET_MAX_BYTES: u64 = 64 * 1024;

/// A line of a longer secret, such as a key in PEM form, is kept from view by itself when it is at least this long.
const LINE_MIN_CHARS: usize = 8;

/// Which secrets of a node its jobs may use.
///
/// Without patterns these are all variables of its environment but Punctual's own, and all files it can read. With
/// patterns, such as `env:SHOP_*` or `file:/run/secrets/*`, they are those and no others.
#[derive(Debug, Clone, Default)]
pub struct SecretRules {
    patterns: Vec<String>,
}

impl SecretRules {
    /// Only what one of the patterns covers; `*` at a pattern's end stands for anything.
    pub fn only(patterns: Vec<String>) -> Result<Self, Invalid> {
        for pattern in &patterns {
            SecretRef::new(pattern.as_str()).source().map_err(|error| Invalid {
                field: "secret pattern".to_owned(),
                remedy: Some("write env:NAME, env:PREFIX_*, file:/PATH or file:/FOLDER/*".to_owned()),
                ..error
            })?;
        }
        Ok(Self { patterns })
    }

    fn allow(&self, reference: &SecretRef, source: SecretSource<'_>) -> bool {
        match source {
            SecretSource::Env(name) if self.patterns.is_empty() => !name.starts_with("PUNCTUAL_"),
            // A way up would lead out of any folder that a pattern names.
            SecretSource::File(path) if Path::new(path).components().any(|part| part.as_os_str() == "..") => false,
            SecretSource::File(_) if self.patterns.is_empty() => true,
            _ => self.patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => reference.secret.starts_with(start),
                None => reference.secret == *pattern,
            }),
        }
    }

    /// Reads a secret now.
    pub fn read(&self, reference: &SecretRef) -> Result<Secret, Invalid> {
        let source = reference.source()?;
        if !self.allow(reference, source) {
            return Err(refused("is not one that this node hands out", "ask for it to be allowed with --secret-allow"));
        }
        read(source)
    }
}

/// Reads a secret that whoever configured the node has named.
pub fn read(source: SecretSource<'_>) -> Result<Secret, Invalid> {
    let text = match source {
        SecretSource::Env(name) => std::env::var(name).map_err(|_| {
            refused("is not set in the node's environment, or is no text", "set it where the node starts")
        })?,
        SecretSource::File(path) => read_file(Path::new(path))?,
    };
    if text.chars().count() < SECRET_MIN_CHARS {
        return Err(refused("is shorter than 4 characters and could not be kept from view", "use a longer one"));
    }
    Ok(Secret::new(text))
}

fn read_file(path: &Path) -> Result<String, Invalid> {
    let cannot = |why: String| refused(&format!("cannot be read: {why}"), "make the file readable for the node");
    // A pipe or a device could keep the node waiting for ever, a pipe even while it is opened.
    let about = std::fs::metadata(path).map_err(|error| cannot(error.kind().to_string()))?;
    if !about.is_file() {
        return Err(cannot("it is no ordinary file".to_owned()));
    }
    let file = std::fs::File::open(path).map_err(|error| cannot(error.kind().to_string()))?;
    let mut text = String::new();
    file.take(SECRET_MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| cannot(error.kind().to_string()))?;
    if text.len() as u64 > SECRET_MAX_BYTES {
        return Err(cannot(format!("it is longer than {SECRET_MAX_BYTES} bytes")));
    }
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
}

fn refused(problem: &str, remedy: &str) -> Invalid {
    Invalid::new("secret", problem).remedy(remedy)
}

/// A text that was cut may end in the middle of a secret, or begin there. So much of one gives it away.
const EDGE_MIN_BYTES: usize = 6;

/// Texts that must not be seen, and what else they may look like.
#[derive(Default)]
pub struct Redactor {
    // Longest first, so that a secret which holds another one disappears as a whole.
    hidden: Vec<String>,
}

impl Redactor {
    /// Keeps a text from view from now on.
    pub fn hide(&mut self, text: &str) {
        if text.chars().count() < SECRET_MIN_CHARS {
            return;
        }
        let quoted = Value::from(text).to_string();
        let mut looks = vec![text.to_owned(), quoted[1..quoted.len() - 1].to_owned(), percent_encoded(text)];
        let lines = text.lines().map(str::trim).filter(|line| line.chars().count() >= LINE_MIN_CHARS);
        looks.extend(lines.map(str::to_owned));
        self.hidden.extend(looks);
        self.hidden.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.hidden.dedup();
    }

    /// The text without what is hidden.
    pub fn text(&self, text: &str) -> String {
        self.hidden.iter().fold(text.to_owned(), |text, hidden| {
            let whole = if text.contains(hidden.as_str()) { text.replace(hidden.as_str(), HIDDEN) } else { text };
            without_edges(whole, hidden)
        })
    }

    /// The document without what is hidden, and still JSON.
    pub fn json(&self, document: Json) -> Json {
        let touched = self.hidden.iter().any(|hidden| document.as_str().contains(hidden.as_str()));
        let escaped = document.as_str().contains("\\u") || document.as_str().contains("\\/");
        if self.hidden.is_empty() || !(touched || escaped) {
            return document;
        }
        let Ok(mut value) = document.to::<Value>() else { return document };
        if !self.clean(&mut value) {
            return document;
        }
        Json::from_value("output", &value).unwrap_or_else(|_| Json::null())
    }

    /// Says whether anything had to be taken out.
    fn clean(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let shown = number.to_string();
                let hidden = self.text(&shown) != shown;
                if hidden {
                    *value = Value::from(HIDDEN);
                }
                hidden
            }
            Value::String(text) => {
                let clean = self.text(text);
                let hidden = clean != *text;
                *text = clean;
                hidden
            }
            Value::Array(items) => items.iter_mut().filter_map(|item| self.clean(item).then_some(())).count() > 0,
            Value::Object(fields) => {
                let mut hidden = false;
                let cleaned = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                    let clean = self.text(&name);
                    hidden |= self.clean(&mut value) || clean != name;
                    (clean, value)
                });
                *fields = cleaned.collect();
                hidden
            }
        }
    }
}

/// Takes out what is left of a secret at either end of a text.
fn without_edges(text: String, hidden: &str) -> String {
    let lengths = || (EDGE_MIN_BYTES..hidden.len()).rev().filter(|length| *length <= text.len());
    let begun = lengths().find(|length| hidden.get(..*length).is_some_and(|part| text.ends_with(part))).unwrap_or(0);
    let ended = lengths()
        .find(|length| hidden.get(hidden.len() - length..).is_some_and(|part| text.starts_with(part)))
        .unwrap_or(0);
    match text.get(ended..text.len() - begun) {
        Some(_) if begun + ended == 0 => text,
        Some(kept) => {
            let mark = |length| if length > 0 { HIDDEN } else { "" };
            format!("{}{kept}{}", mark(ended), mark(begun))
        }
        None => HIDDEN.to_owned(),
    }
}

/// The secrets of one run: what it has read is kept from view in all that it leaves behind.
pub struct RunSecrets {
    rules: Arc<SecretRules>,
    redactor: Mutex<Redactor>,
}

impl RunSecrets {
    /// None read yet.
    pub fn new(rules: Arc<SecretRules>) -> Self {
        Self { rules, redactor: Mutex::default() }
    }

    fn redactor(&self) -> MutexGuard<'_, Redactor> {
        self.redactor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that pass on everything but the run's secrets.
    pub fn keeping_from(self: &Arc<Self>, reports: impl Reports + 'static) -> Arc<dyn Reports> {
        Arc::new(DiscreetReports { secrets: Arc::clone(self), reports })
    }

    /// A text, without the secrets.
    pub fn redact_text(&self, text: &str) -> String {
        self.redactor().text(text)
    }

    /// How the run ended, without its secrets.
    pub fn redact(&self, end: FinishedRun) -> FinishedRun {
        let redactor = self.redactor();
        if redactor.hidden.is_empty() {
            return end;
        }
        FinishedRun {
            error: end.error.map(|error| redactor.text(&error)),
            output: end.output.map(|output| redactor.json(output)),
            log_ref: end.log_ref.map(|log| redactor.text(&log)),
            ..end
        }
    }
}

impl Secrets for RunSecrets {
    fn reveal(&self, reference: &SecretRef) -> Result<Secret, Invalid> {
        let secret = self.rules.read(reference)?;
        self.hide(secret.expose());
        Ok(secret)
    }

    fn hide(&self, text: &str) {
        self.redactor().hide(text);
    }
}

struct DiscreetReports<R> {
    secrets: Arc<RunSecrets>,
    reports: R,
}

#[async_trait]
impl<R: Reports> Reports for DiscreetReports<R> {
    fn log(&self, stream: LogStream, line: &str) {
        let line = self.secrets.redactor().text(line);
        self.reports.log(stream, &line);
    }

    fn progress(&self, progress: Progress) {
        let note = self.secrets.redactor().text(&progress.note);
        self.reports.progress(Progress { note, ..progress });
    }

    async fn remembered_step(&self, name: &str) -> StoreResult<Option<Json>> {
        self.reports.remembered_step(name).await
    }

    async fn remember_step(&self, name: &str, value: Json) -> StoreResult<Json> {
        let value = self.secrets.redactor().json(value);
        self.reports.remember_step(name, value).await
    }

    async fn add_artifact(&self, name: &str, contents: Vec<u8>) -> StoreResult<()> {
        // A file that holds a secret is not kept as it is; one that is no text is not looked into.
        let contents = match String::from_utf8(contents) {
            Ok(text) => self.secrets.redactor().text(&text).into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        };
        let name = self.secrets.redactor().text(name);
        self.reports.add_artifact(&name, contents).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse("test", text).unwrap()
    }

    #[test]
    fn b12_a_secret_disappears_in_every_form_it_is_written() {
        let mut redactor = Redactor::default();
        redactor.hide("hun\"ter/2");
        redactor.hide("hun\"ter/2 and more");
        redactor.hide("87654321");
        assert_eq!(redactor.text(r#"a hun"ter/2 b"#), "a [secret] b");
        assert_eq!(redactor.text(r#"hun"ter/2 and more"#), "[secret]");
        assert_eq!(redactor.text("GET /?t=hun%22ter%2F2"), "GET /?t=[secret]");
        let shown = redactor.json(json(r#"{"hun\"ter\/2":[{"a":"<hun\u0022ter/2>"}],"n":1876543210,"b":true}"#));
        assert_eq!(shown.as_str(), r#"{"[secret]":[{"a":"<[secret]>"}],"b":true,"n":"[secret]"}"#);
        let untouched = json(r#"{"n":12345678901234567890123,"z":1,"a":"\u00e9"}"#);
        assert_eq!(redactor.json(untouched.clone()), untouched);
    }

    #[test]
    fn b12_each_line_of_a_long_secret_disappears() {
        let mut redactor = Redactor::default();
        redactor.hide("-----BEGIN KEY-----\nMIIBOgIBAAJB\nx\n-----END KEY-----");
        assert_eq!(redactor.text("MIIBOgIBAAJB"), HIDDEN);
        assert_eq!(redactor.text("x"), "x");
    }

    #[test]
    fn b12_half_a_secret_at_the_edge_of_a_cut_text_disappears() {
        let mut redactor = Redactor::default();
        redactor.hide("öpen sesame");
        assert_eq!(redactor.text("the word is öpen se"), "the word is [secret]");
        assert_eq!(redactor.text("sesame, he said"), "[secret], he said");
        assert_eq!(redactor.text("sesame or öpen se"), "[secret] or [secret]");
        assert_eq!(redactor.text("pen sesam"), "pen sesam");
        assert_eq!(redactor.text("öpen sesam"), HIDDEN);
        assert_eq!(redactor.text("same"), "same");
    }

    #[test]
    fn b12_only_what_the_node_allows_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "from a file\n").unwrap();
        let reference = |text: String| SecretRef::new(text);
        let path = file.display();
        let all = SecretRules::default();
        assert_eq!(all.read(&reference(format!("file:{path}"))).unwrap().expose(), "from a file");
        assert!(all.read(&reference("env:PATH".to_owned())).is_ok());
        for own in ["env:PUNCTUAL_DATABASE".to_owned(), format!("file:{}/x/../token", folder.path().display())] {
            assert!(all.read(&reference(own)).unwrap_err().problem.contains("hands out"));
        }
        let some = SecretRules::only(vec![format!("file:{}/*", folder.path().display()), "env:HOME".into()]).unwrap();
        assert!(some.read(&reference(format!("file:{path}"))).is_ok());
        assert!(some.read(&reference("env:PATH".to_owned())).unwrap_err().problem.contains("hands out"));
        assert!(some.read(&reference("file:/etc/hostname".to_owned())).is_err());
        assert!(SecretRules::only(vec!["HOME".into()]).is_err());
    }

    #[test]
    fn b12_what_is_no_secret_is_refused_without_being_shown() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            SecretRef::new(format!("file:{}", file.display()))
        };
        for reference in [
            at("short", "abc"),
            at("empty", "\n"),
            at("long", &"x".repeat(70_000)),
            SecretRef::new("file:/dev/zero"),
            SecretRef::new(format!("file:{}", folder.path().display())),
            SecretRef::new("env:SURELY_NOT_SET_ANYWHERE"),
        ] {
            assert!(SecretRules::default().read(&reference).is_err(), "{reference:?}");
        }
    }
}
