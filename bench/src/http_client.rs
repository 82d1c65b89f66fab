//! A connection that is kept open, and the little of HTTP that a load needs.

use crate::load::Outcome;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection of one caller.
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    token: String,
}

impl Connection {
    /// Connects; every request will carry the token.
    pub async fn open(address: SocketAddr, token: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_string(), token: token.to_owned() })
    }

    /// Sends a request and waits for its answer: the status and the body.
    pub async fn ask(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        let (host, token, length) = (&self.host, &self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        let broken = |what: &str| std::io::Error::other(format!("the server's answer has no {what}"));
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| broken("status"))?;
        let mut length = None;
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().ok();
            }
        }
        let mut bytes = vec![0; length.ok_or_else(|| broken("length"))?];
        self.stream.read_exact(&mut bytes).await?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }
}
