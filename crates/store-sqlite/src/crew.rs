//! Threads that take work from one line, and that are waited for when the last handle is gone.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// The line and its threads. Dropping it lets them finish what was handed in and close their connections, so that a
/// store that is gone has left a clean file behind.
pub(crate) struct Crew<T> {
    line: Option<Sender<T>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T> Crew<T> {
    pub(crate) fn new(line: Sender<T>, threads: Vec<JoinHandle<()>>) -> Self {
        Self { line: Some(line), threads }
    }

    /// Hands something in; gives it back when nobody is there to take it.
    pub(crate) fn hand_in(&self, work: T) -> Result<(), T> {
        match &self.line {
            Some(line) => line.send(work).map_err(|refused| refused.0),
            None => Err(work),
        }
    }
}

impl<T> std::fmt::Debug for Crew<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        self.line = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has closed its connection as well.
            let _ended = thread.join();
        }
    }
}
