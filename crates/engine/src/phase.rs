//! What a node is in the middle of, said at trace level: the log of one that died tells where it was.

/// Says when a step begins and, however it ends, that it has ended.
#[must_use]
pub(crate) struct Phase(&'static str);

impl Phase {
    /// Begins a step.
    pub(crate) fn enter(name: &'static str) -> Self {
        tracing::trace!(phase = name, "begins");
        Self(name)
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        tracing::trace!(phase = self.0, "ended");
    }
}
