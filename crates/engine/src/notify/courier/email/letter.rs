//! One letter: text and HTML of the same words, the same bytes at every attempt.

use super::html;
use lettre::Address;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, MultiPartKind, SinglePart};
use punctual_core::id::DeliveryId;
use punctual_core::notify::message::Message;
use punctual_core::notify::wording::{Wording, one_line};
use std::error::Error;
use std::fmt::Write;
use std::time::SystemTime;

/// The longest subject.
const SUBJECT_CHARS: usize = 180;

/// Who gets what.
pub(super) struct Letter {
    pub(super) from: Address,
    pub(super) to: Vec<Address>,
    pub(super) bytes: Vec<u8>,
}

impl Letter {
    /// Writes it. Its id comes from the delivery, so that whoever gets it twice can tell; the letters of one alert
    /// belong together.
    pub(super) fn new(
        id: DeliveryId, message: &Message, wording: &Wording, from: &str, to: &[String],
    ) -> Result<Self, String> {
        let from = mailbox("from", from)?;
        let to = to.iter().map(|text| mailbox("to", text)).collect::<Result<Vec<_>, _>>()?;
        let domain = from.email.domain().to_owned();
        let mut letter = lettre::Message::builder()
            .from(from.clone())
            .subject(one_line(&format!("[Punctual] {}", wording.title), SUBJECT_CHARS))
            .date(SystemTime::from(message.at))
            .message_id(Some(format!("<{id}@{domain}>")))
            .header(AutoSubmitted);
        for mailbox in &to {
            letter = letter.to(mailbox.clone());
        }
        if let Some(alert) = message.alert_id {
            letter = letter.references(format!("<alert.{alert}@{domain}>"));
        }
        let part = |kind, text: String| SinglePart::builder().header(kind).body(text);
        let both = MultiPart::builder()
            .kind(MultiPartKind::Alternative)
            .boundary(format!("punctual-{id}"))
            .singlepart(part(ContentType::TEXT_PLAIN, text(wording)))
            .singlepart(part(ContentType::TEXT_HTML, html::page(wording)));
        let letter = letter.multipart(both).map_err(|error| format!("the letter cannot be written: {error}"))?;
        let bytes = letter.formatted();
        Ok(Self { from: from.email, to: to.into_iter().map(|mailbox| mailbox.email).collect(), bytes })
    }

    /// Whether an address has letters that not every mail server takes.
    pub(super) fn needs_utf8(&self) -> bool {
        self.to.iter().chain([&self.from]).any(|address| !AsRef::<str>::as_ref(address).is_ascii())
    }
}

fn mailbox(field: &str, text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|_| format!("{field}: `{}` is no e-mail address; correct the channel", one_line(text, 100)))
}

/// The words without any form.
fn text(wording: &Wording) -> String {
    let mut text = format!("{}\n\n", wording.title);
    for fact in &wording.facts {
        let below = if fact.text.contains('\n') { "\n" } else { " " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}:{below}{}", fact.label, fact.text);
    }
    text.push('\n');
    for link in &wording.links {
        let _ = writeln!(text, "{}: {}", link.label, link.url);
    }
    if let Some(command) = &wording.command {
        let _ = writeln!(text, "To acknowledge: {command}");
    }
    text
}

/// Says that no person wrote it, so that no absence is reported in return.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use punctual_core::notify::event::{Subject, SubjectKind};
    use punctual_core::notify::message::Occasion;
    use punctual_core::notify::rule::Trigger;

    fn letter(name: &str, error: &str) -> String {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let message = Message {
            occasion: Occasion::Opened,
            trigger: Some(Trigger::Failure),
            subjects: vec![Subject { kind: SubjectKind::Schedule, key: "k".to_owned(), name: name.to_owned() }],
            subjects_total: 1,
            error: Some(error.to_owned()),
            ..Message::test(at)
        };
        let id = DeliveryId::from(uuid::Uuid::from_u128(5));
        let to = ["o@b.example".to_owned(), "Two <t@b.example>".to_owned()];
        let letter = Letter::new(id, &message, &message.wording(None), "P <p@a.example>", &to).unwrap();
        let again = Letter::new(id, &message, &message.wording(None), "P <p@a.example>", &to).unwrap();
        assert_eq!(letter.bytes, again.bytes, "the same at every attempt");
        String::from_utf8(letter.bytes).unwrap()
    }

    #[test]
    fn n01_a_letter_says_who_wrote_it_and_is_known_by_the_delivery() {
        let letter = letter("nightly", "connection refused");
        for line in [
            "Subject: [Punctual] nightly failed: connection refused",
            "Message-ID: <00000000-0000-0000-0000-000000000005@a.example>",
            "Auto-Submitted: auto-generated",
            "Date: Thu, 01 Jan 2026 00:00:00 +0000",
            "MIME-Version: 1.0",
        ] {
            assert!(letter.contains(&format!("{line}\r\n")), "{line}: {letter}");
        }
        assert!(letter.contains("text/plain") && letter.contains("text/html") && letter.is_ascii());
    }

    #[test]
    fn n01_nothing_in_a_name_begins_another_header() {
        let letter = letter("x\r\nBcc: evil@c.example\r\n\r\n<b>", "y\r\n.\r\nMAIL FROM:<evil>\r\nÄ");
        let (head, _) = letter.split_once("\r\n\r\n").unwrap();
        assert!(!head.to_lowercase().lines().any(|line| line.starts_with("bcc")), "{head}");
        let (_, html) = letter.split_once("text/html").unwrap();
        assert!(!html.contains("<b>") && html.contains("&lt;b&gt;"), "{html}");
    }
}
