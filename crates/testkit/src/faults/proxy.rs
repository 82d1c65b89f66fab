//! A proxy in front of a server that cuts a connection after so many bytes, so that a reply can be lost at any place.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is asked.
    ToServer,
    /// What is answered.
    ToClient,
}

/// What went both ways since somebody began to listen.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// What was asked.
    pub to_server: Vec<u8>,
    /// What was answered.
    pub to_client: Vec<u8>,
}

impl Exchange {
    fn side(&mut self, side: Side) -> &mut Vec<u8> {
        match side {
            Side::ToServer => &mut self.to_server,
            Side::ToClient => &mut self.to_client,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    exchange: Exchange,
    /// Which way, and after how many bytes.
    cut: Option<(Side, usize)>,
    cuts: usize,
}

/// A proxy; its connections end with it.
#[derive(Debug)]
pub struct CutProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    accepting: JoinHandle<()>,
}

impl CutProxy {
    /// Starts one in front of a server (`host:port`).
    pub async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A server that is gone looks to the client as it is: a connection that is closed.
                if let Ok(server) = TcpStream::connect(&server).await {
                    tokio::spawn(join(client, server, Arc::clone(&shared)));
                }
            }
        });
        Self { address, state, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to count anew, and cuts nothing.
    pub fn listen(&self) {
        *locked(&self.state) = State::default();
    }

    /// Begins to count anew, and cuts the connection on which one more byte than `after` goes that way.
    pub fn cut_after(&self, side: Side, after: usize) {
        *locked(&self.state) = State { cut: Some((side, after)), ..State::default() };
    }

    /// What went both ways since then.
    pub fn heard(&self) -> Exchange {
        locked(&self.state).exchange.clone()
    }

    /// How many connections were cut since then.
    pub fn cuts(&self) -> usize {
        locked(&self.state).cuts
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes bytes on in both directions; when one direction ends or is cut, so does the other.
async fn join(client: TcpStream, server: TcpStream, state: Arc<Mutex<State>>) {
    let _unimportant = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = pump(from_client, to_server, Side::ToServer, &state) => {}
        () = pump(from_server, to_client, Side::ToClient, &state) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, side: Side, state: &Mutex<State>) {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut chunk).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        let passed = pass(&mut locked(state), side, &chunk[..read]);
        if to.write_all(&chunk[..passed]).await.is_err() || passed < read {
            return;
        }
    }
}

/// How many of these bytes go through.
fn pass(state: &mut State, side: Side, bytes: &[u8]) -> usize {
    let heard = state.exchange.side(side);
    let before = heard.len();
    heard.extend_from_slice(bytes);
    match state.cut {
        Some((cut, after)) if cut == side && before + bytes.len() > after => {
            state.cut = None;
            state.cuts += 1;
            after.saturating_sub(before)
        }
        _ => bytes.len(),
    }
}

/// Where each message of PostgreSQL's protocol begins: a letter, then its length in four bytes.
pub fn message_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(length) = bytes.get(at + 1..at + 5) {
        starts.push(at);
        let length = length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        at += 1 + length.max(4);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::block_on;

    #[test]
    fn c12_the_proxy_cuts_after_exactly_so_many_bytes_and_only_once() {
        block_on(async {
            let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = echo.local_addr().unwrap().to_string();
            tokio::spawn(async move {
                while let Ok((mut socket, _)) = echo.accept().await {
                    tokio::spawn(async move {
                        let mut bytes = [0; 64];
                        while let Ok(read @ 1..) = socket.read(&mut bytes).await {
                            socket.write_all(&bytes[..read]).await.unwrap();
                        }
                    });
                }
            });
            let proxy = CutProxy::start(server).await;
            for (side, after) in [(Side::ToClient, 0), (Side::ToClient, 5), (Side::ToServer, 3)] {
                proxy.cut_after(side, after);
                let mut cut = TcpStream::connect(proxy.address()).await.unwrap();
                cut.write_all(b"0123456789").await.unwrap();
                let mut came = Vec::new();
                let _reset = cut.read_to_end(&mut came).await;
                assert!(came.len() <= after, "{came:?}");
                assert_eq!(proxy.cuts(), 1);
                let mut whole = TcpStream::connect(proxy.address()).await.unwrap();
                whole.write_all(b"again").await.unwrap();
                let mut came = [0; 5];
                whole.read_exact(&mut came).await.unwrap();
                assert_eq!(&came, b"again");
            }
        });
    }

    #[test]
    fn c12_messages_are_told_apart() {
        assert_eq!(message_starts(b"C\0\0\0\x06ABZ\0\0\0\x05I"), [0, 7]);
        assert!(message_starts(b"").is_empty());
    }
}
