//! Refusals of bad input: which field, what is wrong with it, and what to do.

/// Input that was refused; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}{}", .remedy.as_deref().map(|r| format!("; {r}")).unwrap_or_default())]
pub struct Invalid {
    /// Where: a path such as `retry.base` or `input`.
    pub field: String,
    /// What is wrong, in words.
    pub problem: String,
    /// What to do instead, where that can be said.
    pub remedy: Option<String>,
}

impl Invalid {
    /// A refusal without a remedy.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into(), remedy: None }
    }

    /// Adds what to do instead.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
