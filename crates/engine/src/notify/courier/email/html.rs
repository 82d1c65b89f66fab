//! The words as a small HTML page: readable on a phone, nothing fetched from anywhere, everything escaped.

use punctual_core::notify::wording::{Fact, Link, Wording, in_html};
use std::fmt::Write;

const PAGE: &str = "margin:0;padding:16px;background:#f4f5f7;font-family:-apple-system,'Segoe UI',Roboto,Arial,sans-serif;\
                    color:#1c1e21;font-size:16px;line-height:1.45";
const CARD: &str = "max-width:600px;margin:0 auto;background:#ffffff;border-radius:8px;padding:20px";
const TITLE: &str = "margin:0 0 16px;font-size:20px;line-height:1.3;word-break:break-word";
const LABEL: &str = "margin:0;font-size:13px;color:#61666d";
const VALUE: &str = "margin:0 0 10px;word-break:break-word";
const ERROR: &str = "margin:0 0 10px;padding:10px;background:#f4f5f7;border-radius:6px;white-space:pre-wrap;\
                     word-break:break-word;font-size:14px;font-family:Menlo,Consolas,monospace";
const LINK: &str = "display:inline-block;margin:8px 8px 0 0;padding:10px 14px;border-radius:6px;background:#1f5fd0;\
                    color:#ffffff;text-decoration:none";

/// The whole page.
pub(super) fn page(wording: &Wording) -> String {
    let title = in_html(&wording.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title></head>\n\
         <body style=\"{PAGE}\">\n<div style=\"{CARD}\">\n<h1 style=\"{TITLE}\">{title}</h1>\n"
    );
    for Fact { label, text } in &wording.facts {
        let style = if *label == "Error" { ERROR } else { VALUE };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<p style=\"{LABEL}\">{label}</p><p style=\"{style}\">{}</p>", in_html(text));
    }
    for Link { label, url } in &wording.links {
        let _ = writeln!(page, "<a style=\"{LINK}\" href=\"{}\">{}</a>", in_html(url), in_html(label));
    }
    if let Some(command) = &wording.command {
        let command = in_html(command);
        let _ = writeln!(page, "<p style=\"{LABEL}\">To acknowledge</p><p style=\"{ERROR}\">{command}</p>");
    }
    page.push_str("</div>\n</body>\n</html>\n");
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n01_no_text_becomes_markup_and_nothing_is_fetched() {
        let hostile = "<img src=x onerror='a()'>&\"<script>";
        let wording = Wording {
            title: hostile.to_owned(),
            facts: vec![
                Fact { label: "Error", text: hostile.to_owned() },
                Fact { label: "Rule", text: hostile.into() },
            ],
            links: vec![Link { label: "job", url: "https://p.example/jobs/a?x=\"><script>".to_owned() }],
            command: Some(hostile.to_owned()),
        };
        let page = page(&wording);
        for forbidden in ["<img", "<script", "onerror='", "src=", "url("] {
            let found = page.replace("src=x onerror=&#39;", "").contains(forbidden);
            assert!(!found, "{forbidden} in {page}");
        }
        assert!(page.contains("href=\"https://p.example/jobs/a?x=&quot;&gt;&lt;script&gt;\""));
    }
}
