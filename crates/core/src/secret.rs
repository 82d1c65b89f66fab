//! Secrets by reference: a job keeps where a secret is, never the secret itself.

use crate::invalid::Invalid;
use crate::name;
use serde::{Deserialize, Serialize};

/// A value that is given as text, or as a reference to a secret of the node that runs the job.
///
/// ```
/// use punctual_core::secret::Value;
/// let plain: Value = serde_json::from_str("\"text\"").unwrap();
/// assert_eq!(plain, Value::from("text"));
/// let token: Value = serde_json::from_str(r#"{"secret":"env:API_TOKEN"}"#).unwrap();
/// assert_eq!(serde_json::to_string(&token).unwrap(), r#"{"secret":"env:API_TOKEN"}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a text, or a reference such as {\"secret\": \"env:NAME\"}")]
pub enum Value {
    /// The text itself.
    Plain(String),
    /// Where the text is.
    Secret(SecretRef),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Plain(text)
    }
}

impl Value {
    /// Refuses what no text column keeps, and references that lead nowhere.
    pub fn validate(&self, field: &str) -> Result<(), Invalid> {
        match self {
            Self::Plain(text) => name::check_text(field, text),
            Self::Secret(reference) => reference.source().map(|_| ()).map_err(|e| Invalid { field: field.into(), ..e }),
        }
    }
}

/// Where a secret is: `env:NAME` or `file:PATH`, on the node that runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRef {
    /// `env:NAME` or `file:PATH`.
    pub secret: String,
}

/// A reference that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretSource<'a> {
    /// A variable of the node's own environment.
    Env(&'a str),
    /// A file that the node can read; its last line break does not count.
    File(&'a str),
}

impl SecretRef {
    /// A reference.
    pub fn new(secret: impl Into<String>) -> Self {
        Self { secret: secret.into() }
    }

    /// Reads the reference, and refuses one that could never lead to a secret.
    ///
    /// ```
    /// use punctual_core::secret::{SecretRef, SecretSource};
    /// assert_eq!(SecretRef::new("env:TOKEN").source().unwrap(), SecretSource::Env("TOKEN"));
    /// assert!(SecretRef::new("hunter2").source().is_err());
    /// ```
    pub fn source(&self) -> Result<SecretSource<'_>, Invalid> {
        // The text is not repeated: whoever wrote the secret itself here by mistake must not find it in a log.
        let refused = |problem: &str| {
            Invalid::new("secret", problem).remedy("write env:NAME or file:/PATH, which the node that runs it can read")
        };
        name::check_text("secret", &self.secret).map_err(|_| refused("holds a character that no reference has"))?;
        match self.secret.split_once(':') {
            Some(("env", name)) if !name.is_empty() && !name.contains('=') => Ok(SecretSource::Env(name)),
            Some(("env", _)) => Err(refused("names no variable")),
            Some(("file", path)) if path.starts_with('/') => Ok(SecretSource::File(path)),
            Some(("file", _)) => Err(refused("names no file by its full path")),
            _ => Err(refused("is neither env: nor file:")),
        }
    }
}

/// A secret that was read. It shows itself to nobody but who asks for it in so many words.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Where a run gets its secrets: read when they are needed, on the node that runs the job. What was handed out is kept
/// from view in everything the run leaves behind: its log, its error, its output, its artifacts' names.
pub trait Secrets: Send + Sync {
    /// Reads a secret. Refuses what the node does not hand out, cannot read, or could not keep from view.
    fn reveal(&self, reference: &SecretRef) -> Result<Secret, Invalid>;

    /// Keeps another text from view: one that was made from a secret, such as the password inside an address.
    fn hide(&self, text: &str);
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b12_a_secret_is_never_repeated_by_what_refuses_it() {
        for text in ["hunter2", "env:", "env:A=hunter2", "file:hunter2", "vault:hunter2", "env:hunter2\0"] {
            let refused = SecretRef::new(text).source().unwrap_err().to_string();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
        assert!(!format!("{:?}", Secret::new("hunter2")).contains("hunter2"));
    }

    #[test]
    fn b12_a_value_is_a_text_or_a_reference_and_nothing_else() {
        assert!(serde_json::from_str::<Value>("7").unwrap_err().to_string().contains("secret"));
        assert!(serde_json::from_str::<Value>(r#"{"secret":"env:A","or":"b"}"#).is_err());
        assert!(Value::from("a\0b").validate("env.A").is_err());
        assert!(Value::Secret(SecretRef::new("nowhere")).validate("env.A").is_err());
    }
}
