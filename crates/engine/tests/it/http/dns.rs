//! A name server on a real socket, whose answers change from one question to the next, and who asks it.

use async_trait::async_trait;
use punctual_engine::targets::http::names::Names;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// For each name, its answers in turn; the last one stays.
type Zone = BTreeMap<String, Vec<Vec<IpAddr>>>;

/// The server.
pub struct DnsServer {
    address: SocketAddr,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    task: JoinHandle<()>,
}

impl DnsServer {
    pub async fn start(zone: &[(&str, &[&[&str]])]) -> Self {
        let zone: Zone = zone
            .iter()
            .map(|(name, turns)| {
                let turn = |turn: &&[&str]| turn.iter().map(|address| address.parse().unwrap()).collect();
                ((*name).to_owned(), turns.iter().map(turn).collect())
            })
            .collect();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let count = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut question = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut question).await.unwrap();
                let reply = reply(&question[..length], &zone, &count);
                socket.send_to(&reply, from).await.unwrap();
            }
        });
        Self { address, asked, task }
    }

    /// How often a name was looked up.
    pub fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    pub fn names(&self) -> Arc<dyn Names> {
        Arc::new(AskedNames(self.address))
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const ADDRESS: u16 = 1;
const ADDRESS_6: u16 = 28;

fn reply(question: &[u8], zone: &Zone, asked: &Mutex<BTreeMap<String, usize>>) -> Vec<u8> {
    let (name, end) = name_at(question, 12);
    let kind = u16::from_be_bytes([question[end], question[end + 1]]);
    let mut asked = asked.lock().unwrap();
    let turn = asked.entry(name.clone()).or_default();
    let addresses = zone.get(&name).map(|turns| turns[(*turn).min(turns.len() - 1)].clone());
    // Both kinds of addresses are asked for one after the other, and belong to the same turn.
    if kind == ADDRESS_6 {
        *turn += 1;
    }
    let fitting: Vec<IpAddr> =
        addresses.iter().flatten().filter(|address| address.is_ipv4() == (kind == ADDRESS)).copied().collect();
    let code = if addresses.is_some() { 0 } else { 3 };
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(fitting.len()).unwrap(), 0, 0, 0, 0]);
    reply.extend(&question[12..end + 4]);
    for address in fitting {
        let octets = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        // The name by reference, its type, the class, no time to live: nobody may remember it.
        reply.extend([0xc0, 12]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 0, 0, u8::try_from(octets.len()).unwrap()]);
        reply.extend(octets);
    }
    reply
}

fn name_at(message: &[u8], mut at: usize) -> (String, usize) {
    let mut labels = Vec::new();
    while message[at] > 0 {
        let length = usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..=at + length]).into_owned());
        at += length + 1;
    }
    (labels.join("."), at + 1)
}

/// Asks the server for both kinds of addresses.
struct AskedNames(SocketAddr);

#[async_trait]
impl Names for AskedNames {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(self.0).await?;
        let mut addresses = Vec::new();
        for kind in [ADDRESS, ADDRESS_6] {
            let mut question = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            for label in host.trim_end_matches('.').split('.') {
                question.push(u8::try_from(label.len()).map_err(io::Error::other)?);
                question.extend(label.as_bytes());
            }
            question.push(0);
            question.extend(kind.to_be_bytes());
            question.extend([0, 1]);
            socket.send(&question).await?;
            let mut reply = [0; 512];
            let length = socket.recv(&mut reply).await?;
            if reply[3] & 15 != 0 {
                return Err(io::Error::other("no such name"));
            }
            addresses.extend(records(&reply[..length], question.len()));
        }
        Ok(addresses)
    }
}

fn records(reply: &[u8], mut at: usize) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for _ in 0..reply[7] {
        let length = usize::from(reply[at + 11]);
        let data = &reply[at + 12..at + 12 + length];
        addresses.push(match <[u8; 4]>::try_from(data) {
            Ok(v4) => IpAddr::from(v4),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(data).unwrap()),
        });
        at += 12 + length;
    }
    addresses
}
