//! Listens to whoever asked: waits for the word to go, and ends the process once stdin is closed.

use crate::{Outcome, Peer, say};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Whether all is said. A stdin that is closed before means that whoever asked is gone.
static IS_DONE: AtomicBool = AtomicBool::new(false);

pub struct Starter {
    words: UnboundedReceiver<String>,
}

impl Starter {
    pub fn listen() -> Self {
        let (heard, words) = unbounded_channel();
        // On a thread of its own, so that the end is seen however busy the peer keeps the runtime.
        std::thread::spawn(move || listen(&heard));
        Self { words }
    }

    /// Says that all is ready, and waits for the word.
    pub async fn go(&mut self, peer: &impl Peer, mut ready: Value) -> Outcome<Instant> {
        if let (Some(ready), Value::Object(durability)) = (ready.as_object_mut(), peer.durability().await?) {
            ready.extend(durability);
        }
        ready["event"] = json!("ready");
        say(&ready);
        while let Some(word) = self.words.recv().await {
            if word.trim() == "go" {
                return Ok(Instant::now());
            }
        }
        Err("stdin ended before the line: go".into())
    }

    /// Says what came of it, and stays until whoever asked has looked at this process's memory, and closes stdin.
    pub async fn done(&mut self, mut done: Value) -> Outcome<()> {
        done["event"] = json!("done");
        IS_DONE.store(true, Ordering::SeqCst);
        say(&done);
        while self.words.recv().await.is_some() {}
        Ok(())
    }
}

fn listen(heard: &UnboundedSender<String>) {
    for word in std::io::stdin().lines().map_while(Result::ok) {
        let _ = heard.send(word);
    }
    if IS_DONE.load(Ordering::SeqCst) {
        std::process::exit(0);
    }
    say(&json!({"event": "failed", "why": "stdin was closed before all was done"}));
    std::process::exit(1);
}
