//! A small HTTP client over a real socket: it sends exactly what a test says, and nothing of its own.

use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The body of an answer that must have this status.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// The code of a refusal that must have this status, a remedy and the request's id.
    pub fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{problem}");
        assert!(problem["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "no remedy: {problem}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        Self { address, method: method.into(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without a header.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self
    }

    pub fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string().into_bytes())
    }

    pub fn raw(mut self, kind: &str, body: Vec<u8>) -> Self {
        self.body = body;
        self.header("Content-Type", kind)
    }

    fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            write!(head, "Host: {}\r\n", self.address).expect("a text takes everything");
        }
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").expect("a text takes everything");
        }
        head + &format!("Content-Length: {}\r\nConnection: close\r\n\r\n", self.body.len())
    }

    pub async fn send(self) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.write_all(self.head().as_bytes()).await.unwrap();
        // A server that refuses a body may close before it has read all of it.
        let _refused = stream.write_all(&self.body).await;
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader).await;
        let mut bytes = Vec::new();
        let _reset = reader.read_to_end(&mut bytes).await;
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let bytes = if chunked { unchunked(&bytes) } else { bytes };
        Answer { status, headers, text: String::from_utf8(bytes).unwrap() }
    }

    /// Opens a stream of events.
    pub async fn listen(self) -> Events {
        let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.write_all(self.head().as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader).await;
        assert_eq!(status, 200);
        Events { reader }
    }
}

async fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("`{line}`"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { return (status, headers) };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[(end + 4 + size).min(bytes.len())..];
    }
    whole
}

/// Server-sent events, as they come.
pub struct Events {
    reader: BufReader<TcpStream>,
}

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub id: Option<String>,
    pub kind: String,
    pub data: String,
}

impl Events {
    /// The next event; `None` when the stream ends.
    pub async fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("event", kind)) => event.kind = kind.to_owned(),
                Some(("data", data)) => event.data = data.to_owned(),
                // The end of an event, the size of a chunk, or a sign of life.
                _ if line.trim().is_empty() && !event.kind.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    /// Waits for an event of a kind; says what came on the way.
    pub async fn until(&mut self, kind: &str) -> Event {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if event.kind == kind {
                return event;
            }
        }
    }
}
