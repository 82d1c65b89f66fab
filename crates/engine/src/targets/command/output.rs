//! What a command says, line by line into the run's log.

use crate::scribe::LINE_MAX_BYTES;
use punctual_core::execute::RunContext;
use punctual_core::records::LogStream;
use std::pin::pin;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::sleep;

/// The most of a command's output that is kept as what the run returned.
const OUTPUT_MAX_BYTES: usize = 64 << 10;

/// How long after a command's end its output is waited for: only who was handed the pipe by other means is left.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How much is read at a time.
const READ_BYTES: usize = 64 << 10;

/// Reads to the end, whatever is said; hands back how it began. What is not read would block who says it.
pub(super) async fn capture(
    pipe: Option<pipe::Receiver>, run: &RunContext, stream: LogStream, mut over: watch::Receiver<bool>,
) -> Vec<u8> {
    let mut lines = Lines { run, stream, partial: Vec::new() };
    let mut beginning = Vec::new();
    let Some(mut pipe) = pipe else { return beginning };
    let mut said = vec![0; READ_BYTES];
    let mut silence = pin!(async move {
        drop(over.wait_for(|over| *over).await);
        sleep(LAST_WORDS).await;
    });
    loop {
        let read = tokio::select! {
            biased;
            read = pipe.read(&mut said) => read.unwrap_or(0),
            () = &mut silence => 0,
        };
        if read == 0 {
            break;
        }
        let room = OUTPUT_MAX_BYTES - beginning.len();
        beginning.extend_from_slice(&said[..read.min(room)]);
        lines.take(&said[..read]);
    }
    lines.end();
    beginning
}

/// Puts lines together.
struct Lines<'a> {
    run: &'a RunContext,
    stream: LogStream,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
}

impl Lines<'_> {
    fn take(&mut self, said: &[u8]) {
        let Some(last) = memchr::memrchr(b'\n', said) else {
            self.partial.extend_from_slice(said);
            if self.partial.len() >= LINE_MAX_BYTES {
                let whole = whole_characters(&self.partial);
                let rest = self.partial.split_off(whole);
                self.log();
                self.partial = rest;
            }
            return;
        };
        self.partial.extend_from_slice(&said[..last]);
        self.log();
        self.partial.extend_from_slice(&said[last + 1..]);
    }

    /// A line without an end counts as one.
    fn end(&mut self) {
        if !self.partial.is_empty() {
            self.log();
        }
    }

    fn log(&mut self) {
        self.run.log(self.stream, String::from_utf8_lossy(&self.partial));
        self.partial.clear();
    }
}

/// How many bytes there are without a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let last_start = bytes.iter().enumerate().skip(tail).rev().find(|(_, byte)| **byte >= 0xc0);
    match last_start {
        Some((at, byte)) => {
            let needed = if *byte >= 0xf0 { 4 } else { 2 + usize::from(*byte >= 0xe0) };
            if bytes.len() - at < needed { at } else { bytes.len() }
        }
        None => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c13_a_character_is_not_cut_in_two() {
        for (bytes, whole) in [
            (&b"abc"[..], 3),
            ("aü".as_bytes(), 3),
            (&"aü".as_bytes()[..2], 1),
            (&"a€".as_bytes()[..3], 1),
            (&"a🔥".as_bytes()[..4], 1),
            ("a🔥".as_bytes(), 5),
            (b"a\xff\xff\xff", 4 - 1),
            (b"\x80\x80\x80", 3),
            (b"", 0),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }
}
