//! A web server on a real socket that answers as a test wants, however badly.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A request as it arrived: all bytes of its head, in small letters, and its body.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub head: String,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")))?;
        Some(&line[name.len() + 2..])
    }
}

/// A server; ends with the test.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// One permit for each request that has arrived.
    pub arrived: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Server {
    /// Reads each request and hands the connection to `answer`, which may do with it what it likes.
    pub async fn start<F, W>(answer: F) -> Self
    where
        F: Fn(TcpStream, Seen) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send,
    {
        Self::at("127.0.0.1:0", answer).await
    }

    pub async fn at<F, W>(address: &str, answer: F) -> Self
    where
        F: Fn(TcpStream, Seen) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, arrived) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
        let (list, permits, answer) = (Arc::clone(&seen), Arc::clone(&arrived), Arc::new(answer));
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (list, permits, answer) = (Arc::clone(&list), Arc::clone(&permits), Arc::clone(&answer));
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    list.lock().unwrap().push(request.clone());
                    permits.add_permits(1);
                    answer(stream, request).await;
                });
            }
        });
        Self { address, seen, arrived, task }
    }

    /// Answers every request with the same bytes.
    pub async fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::start(move |mut stream, _| {
            let answer = Arc::clone(&answer);
            async move {
                let _gone = stream.write_all(&answer).await;
                let _gone = stream.shutdown().await;
            }
        })
        .await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until nobody has a connection to this server any more, as the kernel sees it.
    pub async fn until_left_alone(&self) {
        while connections_to(self.address.port()) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads up to the end of a request's body, or as much as comes.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Seen {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let seen = Seen { head: head.to_owned(), body: body.to_owned() };
            let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return seen;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return Seen { head: text, body: String::new() };
        }
    }
}

/// A whole answer.
pub fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// Writes until the other side has had enough.
pub async fn write_for_ever(mut stream: impl AsyncWrite + Unpin, head: &str, chunk: &[u8]) {
    let mut going = stream.write_all(head.as_bytes()).await;
    while going.is_ok() {
        going = stream.write_all(chunk).await;
    }
}

/// Waits until the other side is gone.
pub async fn hold(mut stream: impl AsyncRead + Unpin) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

/// How many sockets of the machine are connected to a port, or about to be: the caller's side, from /proc.
fn connections_to(port: u16) -> usize {
    // Established, SYN sent, CLOSE_WAIT: what the caller still holds.
    const HELD: [&str; 3] = ["01", "02", "08"];
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines
        .filter(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            columns[2].ends_with(&format!(":{port:04X}")) && HELD.contains(&columns[3])
        })
        .count()
}
