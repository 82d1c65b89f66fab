//! Messages on their way to real receivers, which read and verify them with code that is not ours.

mod hooks;
mod mail;
mod places;

use jiff::Timestamp;
use punctual_core::id::{AlertId, DeliveryId};
use punctual_core::name::Name;
use punctual_core::notify::channel::{Channel, ChannelDefinition, ChannelTarget};
use punctual_core::notify::event::{Subject, SubjectKind};
use punctual_core::notify::message::{Courier, Message, Occasion, Sent};
use punctual_core::notify::rule::Trigger;
use punctual_core::run::ErrorCode;
use punctual_core::secret::{SecretRef, Value};
use punctual_engine::notify::courier::{PostOffice, PostOptions};
use punctual_engine::secrets::SecretRules;
use punctual_engine::targets::http::HttpOptions;
use std::path::Path;
use std::sync::Arc;

/// Somebody who sends to this machine, with secrets in a folder.
struct Sender {
    office: PostOffice,
    folder: tempfile::TempDir,
}

impl Sender {
    fn new() -> Self {
        Self::with(crate::http::local_options(), |options| options)
    }

    fn with(http: HttpOptions, change: impl FnOnce(PostOptions) -> PostOptions) -> Self {
        let options = PostOptions { http, ..PostOptions::new(Arc::new(SecretRules::default())) };
        Self { office: PostOffice::new(change(options)).unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    /// Keeps a secret, and says where it is.
    fn secret(&self, name: &str, text: &str) -> SecretRef {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        SecretRef::new(format!("file:{}", file.display()))
    }

    async fn send(&self, target: ChannelTarget, message: &Message) -> Sent {
        self.send_as(delivery(), target, message).await
    }

    async fn send_as(&self, id: DeliveryId, target: ChannelTarget, message: &Message) -> Sent {
        target.validate().unwrap();
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let definition = ChannelDefinition::new(Name::new("ops").unwrap(), target);
        let channel = Channel { definition, version: 1, created_at: at, updated_at: at };
        self.office.send(id, &channel, message).await
    }
}

fn delivery() -> DeliveryId {
    DeliveryId::from(uuid::Uuid::from_u128(0xd17))
}

/// A failure of a schedule whose name and error are up to no good.
fn hostile() -> Message {
    Message {
        occasion: Occasion::Opened,
        rule: Some(Name::new("night watch").unwrap()),
        trigger: Some(Trigger::Failure),
        alert_id: Some(AlertId::from(uuid::Uuid::from_u128(0xa1))),
        count: 3,
        subjects: vec![Subject {
            kind: SubjectKind::Schedule,
            key: "k".to_owned(),
            name: "x\r\nBcc: evil@c.example\r\n<b>ü</b>".to_owned(),
        }],
        subjects_total: 1,
        error_code: Some(ErrorCode::TargetError),
        error: Some("<!channel> line 1\r\n.\r\nMAIL FROM:<evil>\n<script>".to_owned()),
        acknowledge: Some("c0de".to_owned()),
        ..Message::test("2026-01-01T00:00:00Z".parse().unwrap())
    }
}

fn arrived(sent: &Sent) -> &str {
    match sent {
        Sent::Arrived { answer } => answer,
        other => panic!("it did not arrive: {other:?}"),
    }
}

fn failed(sent: &Sent) -> &str {
    match sent {
        Sent::Failed { error, retry_after: None } => error,
        other => panic!("it did not fail like that: {other:?}"),
    }
}

fn refused(sent: &Sent) -> &str {
    match sent {
        Sent::Refused { error } => error,
        other => panic!("it was not refused: {other:?}"),
    }
}

fn plain(url: &str) -> Value {
    Value::from(url)
}

fn written(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}
