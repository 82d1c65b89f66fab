//! Who receives notifications: a real mail server and a real receiver of webhooks, which misbehave when told to.
//!
//! Both are Python programs with other people's libraries in them, so that what arrives is read and verified by code
//! that has nothing to do with ours.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;

/// How long anything may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(90);

/// A receiver; ends with the test.
#[derive(Debug)]
pub struct Receiver {
    child: Child,
    orders: ChildStdin,
    obeyed: mpsc::Receiver<Value>,
    got: watch::Receiver<Vec<Value>>,
    port: u16,
    _folder: TempDir,
}

/// How a mail server's connections are secured, and who may log in.
#[derive(Debug, Default)]
pub struct MailServer<'a> {
    /// `starttls`, `implicit`, or nothing for none.
    pub tls: Option<&'a str>,
    /// The files of its certificate and of its key.
    pub certificate: Option<(&'a Path, &'a Path)>,
    /// Name and password.
    pub login: Option<(&'a str, &'a str)>,
}

impl Receiver {
    /// A receiver of webhooks, chats and pings that knows these secrets. It obeys `ok`, `status CODE [HEADER VALUE]`,
    /// `slow SECONDS`, `close` and `down`.
    pub fn hook(secrets: &[&str]) -> Self {
        Self::start("hook.py", include_str!("receivers/hook.py"), &[("HOOK_SECRETS", secrets.join(" "))])
    }

    /// A mail server. It obeys `ok`, `rcpt CODE [ADDRESS]`, `data CODE`, `slow SECONDS`, `close` and `down`.
    pub fn mail(server: &MailServer<'_>) -> Self {
        let mut settings = vec![("MAIL_TLS", server.tls.unwrap_or("none").to_owned())];
        if let Some((certificate, key)) = server.certificate {
            settings.push(("MAIL_CERT", certificate.display().to_string()));
            settings.push(("MAIL_KEY", key.display().to_string()));
        }
        if let Some((user, password)) = server.login {
            settings.push(("MAIL_USER", user.to_owned()));
            settings.push(("MAIL_PASSWORD", password.to_owned()));
        }
        Self::start("mail.py", include_str!("receivers/mail.py"), &settings)
    }

    fn start(name: &str, script: &str, settings: &[(&str, String)]) -> Self {
        let folder = tempfile::Builder::new().prefix("punctual-rc-").tempdir().expect("a folder can be made");
        for (name, text) in [(name, script), ("common.py", include_str!("receivers/common.py"))] {
            std::fs::write(folder.path().join(name), text).expect("the program can be written");
        }
        let mut child = Command::new(crate::clients::installed("target/receivers/bin/python"))
            .arg(folder.path().join(name))
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the receiver can be started");
        let orders = child.stdin.take().expect("it reads orders");
        let said = BufReader::new(child.stdout.take().expect("it tells what happens"));
        let (answers, obeyed) = mpsc::channel();
        let (news, got) = watch::channel(Vec::new());
        // It ends with the receiver, whose end closes the pipe.
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                let mut told: Value = serde_json::from_str(&line).expect("it tells JSON");
                match told.get_mut("got").map(Value::take) {
                    Some(message) => news.send_modify(|all| all.push(message)),
                    None => drop(answers.send(told)),
                }
            }
        });
        let ready = obeyed.recv_timeout(PATIENCE).expect("the receiver starts");
        let port = ready["ready"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("it tells its port");
        Self { child, orders, obeyed, got, port, _folder: folder }
    }

    /// Where it listens, on this machine; the same whether or not it is down.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of something it receives by HTTP.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Says how it is to behave from now on.
    pub fn behave(&mut self, how: &str) {
        writeln!(self.orders, "{how}").expect("it still reads orders");
        let told = self.obeyed.recv_timeout(PATIENCE).expect("it obeys");
        assert_eq!(told["obeyed"], how);
    }

    /// What has come so far, in order: also what was then not answered well.
    pub fn got(&self) -> Vec<Value> {
        self.got.borrow().clone()
    }

    /// Waits until what has come is enough.
    pub async fn until(&self, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut got = self.got.clone();
        let waited = tokio::time::timeout(PATIENCE, got.wait_for(|all| enough(all))).await;
        let all = waited.ok().and_then(Result::ok).map(|all| all.clone());
        all.unwrap_or_else(|| panic!("what was waited for did not come; this did: {:#?}", self.got()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}
