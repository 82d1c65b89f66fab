//! Chats: what Slack's incoming webhooks take, and those who do as it does.
//!
//! Slack shows the blocks; Mattermost, Rocket.Chat and Discord know the text alone, so that it says everything, too.

use crate::targets::http::Request;
use punctual_core::notify::wording::{Fact, Wording};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

/// The most characters of one section; Slack refuses messages with more.
const SECTION_CHARS: usize = 3000;

/// The most characters of a title.
const TITLE_CHARS: usize = 500;

/// The POST.
pub(super) fn request(url: &str, wording: &Wording) -> Result<Request, String> {
    let mut request =
        Request::new(Method::POST, url, body(wording).to_string().into_bytes()).map_err(|it| it.to_string())?;
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    Ok(request)
}

fn body(wording: &Wording) -> Value {
    let title = format!("*{}*", escaped(&wording.title, TITLE_CHARS));
    let facts = capped_lines(wording.facts.iter().map(fact));
    let links: Vec<String> = wording.links.iter().map(|link| format!("<{}|{}>", link.url, link.label)).collect();
    let command = wording.command.iter().map(|command| format!("`{command}`"));
    let ways = links.into_iter().chain(command).collect::<Vec<_>>().join("  ·  ");
    let parts: Vec<&String> = [&title, &facts, &ways].into_iter().filter(|part| !part.is_empty()).collect();
    let section =
        |text: &&String| json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}});
    let text = parts.iter().map(|part| part.as_str()).collect::<Vec<_>>().join("\n");
    json!({"text": text, "blocks": parts.iter().map(section).collect::<Vec<_>>()})
}

fn fact(Fact { label, text }: &Fact) -> String {
    let text = escaped(text, SECTION_CHARS / 2);
    if *label == "Error" {
        // An error keeps its form, and cannot end it.
        return format!("```{}```", text.replace("```", "'''"));
    }
    format!("{label}: {text}")
}

/// As many lines as a section takes.
fn capped_lines(lines: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    let mut used = 0;
    for line in lines {
        used += line.chars().count() + 1;
        if used > SECTION_CHARS {
            break;
        }
        if !all.is_empty() {
            all.push('\n');
        }
        all.push_str(&line);
    }
    all
}

/// A text that is nothing but text: what Slack reads as a link, a mention or an entity is spelled out, and the mentions
/// of whole channels that others read in plain text are broken up. At most so long when it is escaped.
fn escaped(text: &str, most: usize) -> String {
    let mut safe = String::new();
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        let mut plain = [0; 4];
        let part = match letter {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '@' if calls_everybody(&text[at + 1..]) => "@\u{200b}",
            other => other.encode_utf8(&mut plain),
        };
        used += part.chars().count();
        if used >= most {
            safe.push('…');
            break;
        }
        safe.push_str(part);
    }
    safe
}

fn calls_everybody(rest: &str) -> bool {
    let word: String = rest.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    ["all", "channel", "everyone", "group", "here"].contains(&word.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::notify::wording::Link;

    fn wording(title: &str, error: &str) -> Wording {
        Wording {
            title: title.to_owned(),
            facts: vec![
                Fact { label: "Began", text: "now".to_owned() },
                Fact { label: "Error", text: error.to_owned() },
            ],
            links: vec![Link { label: "job", url: "https://p.example/jobs/1".to_owned() }],
            command: None,
        }
    }

    #[test]
    fn n01_nobody_is_called_by_what_an_error_says() {
        let body =
            body(&wording("<!channel> & @channel @Here a@all.example @example", "<@U1> ```*x*``` <https://evil|ok>"));
        let text = body["text"].as_str().unwrap();
        assert_eq!(
            text,
            "*&lt;!channel&gt; &amp; @\u{200b}channel @\u{200b}Here a@\u{200b}all.example @example*\nBegan: now\n\
             ```&lt;@U1&gt; '''*x*''' &lt;https://evil|ok&gt;```\n<https://p.example/jobs/1|job>"
        );
        let blocks = body["blocks"].as_array().unwrap();
        assert_eq!(blocks.len(), 3);
        assert!(blocks.iter().all(|block| block["text"]["verbatim"] == true));
    }

    #[test]
    fn n01_a_section_is_never_longer_than_slack_takes() {
        for error in ["&".repeat(5000), "a".repeat(5000), "```".repeat(2000)] {
            let body = body(&wording(&"<".repeat(5000), &error));
            for block in body["blocks"].as_array().unwrap() {
                let text = block["text"]["text"].as_str().unwrap();
                assert!(text.chars().count() <= SECTION_CHARS, "{}", text.len());
                assert!(text.rsplit('&').next().unwrap().len() >= 3, "no entity is cut in its middle");
            }
        }
    }
}
