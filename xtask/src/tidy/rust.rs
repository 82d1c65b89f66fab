//! Rules about the text of single source files, whatever their language.

use super::{File, Tree, place};

const MAX_CODE_LINES: usize = 600;
const MAX_INLINE_TEST_LINES: usize = 300;
const MAX_TEST_FILE_LINES: usize = 1_200;

/// What files that a browser or Node reads end with.
const FOR_BROWSERS: [&str; 5] = ["ts", "mjs", "js", "svelte", "css"];

/// Crates whose rules must be tested with any time, so they may not look at a clock.
const CLOCKLESS: &[&str] = &["crates/core/", "crates/engine/"];
/// The one place where the engine's injected clock meets the machine's.
const CLOCK_FILE: &str = "crates/engine/src/clock.rs";

/// A reader who opens a file learns in one sentence what it owns.
pub fn opening_sentence(tree: &Tree) -> Vec<String> {
    let rust = tree.with_extension("rs").filter(|file| !opens_with(file, "//!"));
    let sql = tree.with_extension("sql").filter(|file| !opens_with(file, "--"));
    let scripts = ["ts", "mjs", "js"].into_iter().flat_map(|ending| tree.with_extension(ending));
    let scripts = scripts.filter(|file| !opens_with(file, "//"));
    let pages = tree.with_extension("svelte").filter(|file| !opens_with_comment(file));
    rust.map(|file| format!("{}:1: open with one `//!` sentence that says what the file owns", file.path))
        .chain(sql.map(|file| format!("{}:1: open with a `--` sentence that says what it does", file.path)))
        .chain(scripts.map(|file| format!("{}:1: open with one `//` sentence that says what the file owns", file.path)))
        .chain(
            pages.map(|file| format!("{}:1: open with one `<!-- … -->` sentence that says what it shows", file.path)),
        )
        .collect()
}

/// The first paragraph after the marker begins on the first line and ends like a sentence.
fn opens_with(file: &File, marker: &str) -> bool {
    let paragraph: Vec<&str> = file
        .text
        .lines()
        .map_while(|line| line.strip_prefix(marker).map(str::trim))
        .take_while(|line| !line.is_empty())
        .collect();
    paragraph.last().is_some_and(|last| is_sentence(last))
}

/// The same for a comment of HTML.
fn opens_with_comment(file: &File) -> bool {
    let comment = file.text.strip_prefix("<!--").and_then(|rest| rest.split_once("-->"));
    comment.is_some_and(|(comment, _)| is_sentence(comment))
}

fn is_sentence(text: &str) -> bool {
    text.trim_end().ends_with(['.', ':', '?', '!'])
}

pub fn file_length(tree: &Tree) -> Vec<String> {
    let files = tree.with_extension("rs").chain(tree.with_extension("sql"));
    files.chain(FOR_BROWSERS.iter().flat_map(|ending| tree.with_extension(ending))).filter_map(too_long).collect()
}

fn too_long(file: &File) -> Option<String> {
    let (code, tests) = split_tests(&file.text);
    let (code, tests) = (code.lines().count(), tests.lines().count());
    let path = &file.path;
    if is_test_file(path) {
        let lines = code + tests;
        return (lines > MAX_TEST_FILE_LINES)
            .then(|| format!("{path}: {lines} lines of tests (at most {MAX_TEST_FILE_LINES}): divide it by subject"));
    }
    if code > MAX_CODE_LINES {
        return Some(format!("{path}: {code} lines without tests (at most {MAX_CODE_LINES}): divide it"));
    }
    (tests > MAX_INLINE_TEST_LINES).then(|| {
        format!("{path}: {tests} lines of tests inside (at most {MAX_INLINE_TEST_LINES}): move them to a tests.rs")
    })
}

/// The list of cases is one, and holds nothing but the names of tests.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/conformance/cases.rs")
}

/// Divides a file at its inline test module, which by habit is the last item.
fn split_tests(text: &str) -> (&str, &str) {
    let at = text
        .find("\n#[cfg(test)]\nmod ")
        .filter(|at| text[at + 1..].lines().nth(1).is_some_and(|line| line.trim_end().ends_with('{')));
    at.map_or((text, ""), |at| text.split_at(at + 1))
}

/// `expect` tells when the exception is no longer needed; the reason tells why it was.
pub fn lint_exceptions(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        let code = blank_text(&file.text);
        for (at, _) in code.match_indices("allow(").filter(|(at, _)| is_attribute(&code, *at)) {
            findings.push(format!("{}: use `#[expect(…, reason = \"…\")]` instead of `allow`", place(file, at)));
        }
        for (at, _) in code.match_indices("expect(").filter(|(at, _)| is_attribute(&code, *at)) {
            let inside = code[at..].split(')').next().unwrap_or_default();
            if !inside.contains("reason") {
                findings.push(format!("{}: `expect` needs a `reason`", place(file, at)));
            }
        }
    }
    findings
}

/// Whether the word at this byte is inside `#[…]` or `#![…]`, directly or in a `cfg_attr`.
fn is_attribute(code: &str, at: usize) -> bool {
    let before = &code[..at];
    let opened = before.rfind("#[").max(before.rfind("#!["));
    let word_begins = !before.ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == '.');
    word_begins && opened.is_some_and(|start| !before[start..].contains(']'))
}

pub fn no_clock(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs").filter(|file| is_clockless(&file.path)) {
        let code = blank_text(split_tests(&file.text).0);
        for reader in ["Timestamp::now", "Zoned::now", "SystemTime::now", "Instant::now"] {
            for (at, _) in code.match_indices(reader) {
                findings
                    .push(format!("{}: `{reader}`: take the time as an argument or from the clock", place(file, at)));
            }
        }
    }
    findings
}

fn is_clockless(path: &str) -> bool {
    CLOCKLESS.iter().any(|folder| path.starts_with(folder)) && !is_test_file(path) && path != CLOCK_FILE
}

/// The text with comments, strings and characters blanked out: same bytes, same lines, only code.
pub fn blank_text(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + text_length(&bytes[at..], at.checked_sub(1).map(|it| bytes[it]));
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// How many bytes of comment or literal begin here; 0 where code goes on.
fn text_length(rest: &[u8], before: Option<u8>) -> usize {
    let in_word = before.is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|it| *it == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, b'"'),
        [b'r', b'"' | b'#', ..] if !in_word || before == Some(b'b') => raw_string(rest),
        [b'\'', b'\\', ..] => quoted(rest, b'\''),
        // One character and the closing quote; anything else is a lifetime.
        [b'\'', first, more @ ..] => {
            let width = if first.is_ascii() { 0 } else { more.iter().take_while(|it| **it & 0xC0 == 0x80).count() };
            if more.get(width) == Some(&b'\'') { width + 3 } else { 0 }
        }
        _ => 0,
    }
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|it| **it == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &rest[hashes + 2..];
    let end = body.windows(close.len()).position(|it| it == close).map_or(body.len(), |at| at + close.len());
    hashes + 2 + end
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rule: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_file_must_open_with_a_sentence() {
        for bad in ["", "use a;\n", "\n//! Late.\n", "//!\n", "//! no end\n", "// Not a doc.\n"] {
            assert_eq!(findings(opening_sentence, "a.rs", bad), 1, "{bad:?}");
        }
        for good in ["//! One.\nuse a;\n", "//! One that\n//! goes on.\n//!\n//! more\n"] {
            assert_eq!(findings(opening_sentence, "a.rs", good), 0, "{good:?}");
        }
        assert_eq!(findings(opening_sentence, "a.sql", "SELECT 1;"), 1);
        for (path, good) in [("a.ts", "// One.\n"), ("a.test.mjs", "// One.\n"), ("a.svelte", "<!-- One. -->\n<p>")] {
            assert_eq!(findings(opening_sentence, path, good), 0, "{path}");
            assert_eq!(findings(opening_sentence, path, "import a from 'b';\n"), 1, "{path}");
            assert_eq!(findings(file_length, path, &good.repeat(601)), 1, "{path}");
        }
        assert_eq!(findings(opening_sentence, "a.sql", "-- Claims jobs.\nSELECT 1;"), 0);
    }

    #[test]
    fn files_are_measured_without_their_tests() {
        let code = "fn a() {}\n".repeat(600);
        let tests = format!("{code}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// test\n".repeat(200));
        assert_eq!(findings(file_length, "a.rs", &format!("{code}fn b() {{}}\n")), 1);
        assert_eq!(findings(file_length, "a/src/b.rs", &tests.replacen("fn a() {}\n", "", 2)), 0);
        assert_eq!(findings(file_length, "a/tests/b.rs", &code.repeat(2)), 0);
        assert_eq!(findings(file_length, "a/src/b/tests.rs", &code.repeat(3)), 1);
        let many_tests = format!("fn a() {{}}\n\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// test\n".repeat(400));
        assert_eq!(findings(file_length, "a.rs", &many_tests), 1);
    }

    #[test]
    fn lints_are_excepted_with_a_reason_only() {
        for bad in
            ["#[allow(dead_code)]", "#![allow(dead_code)]", "#[cfg_attr(test, allow(x))]", "#[expect(dead_code)]"]
        {
            assert_eq!(findings(lint_exceptions, "a.rs", bad), 1, "{bad}");
        }
        for good in
            ["#[expect(dead_code, reason = \"because\")]", "a.expect(\"b\")", "// #[allow(x)]", "fn allow(a: u8)"]
        {
            assert_eq!(findings(lint_exceptions, "a.rs", good), 0, "{good}");
        }
    }

    #[test]
    fn core_and_engine_read_no_clock() {
        let bad = "fn a() { let t = Instant::now(); }";
        assert_eq!(findings(no_clock, "crates/core/src/a.rs", bad), 1);
        assert_eq!(findings(no_clock, "crates/engine/src/a.rs", bad), 1);
        assert_eq!(findings(no_clock, "crates/engine/src/clock.rs", bad), 0);
        assert_eq!(findings(no_clock, "crates/store-sqlite/src/a.rs", bad), 0);
        assert_eq!(findings(no_clock, "crates/core/src/a.rs", "// never Instant::now()\n"), 0);
        let in_tests = format!("fn b() {{}}\n\n#[cfg(test)]\nmod tests {{\n{bad}\n}}\n");
        assert_eq!(findings(no_clock, "crates/core/src/a.rs", &in_tests), 0);
    }

    #[test]
    fn only_code_is_left_of_a_text() {
        for (text, code) in [
            ("a \"b\\\"c\" d", "a        d"),
            ("a // b\nc", "a     \nc"),
            ("/* a /* b */ c */ d", "                  d"),
            ("r#\"a\"b\"# c", "         c"),
            ("br\"a\" c", "b     c"),
            ("for<'a> 'b' '\\'' d", "for<'a>          d"),
            ("'é' x", "     x"),
            ("number\"a\"", "number   "),
        ] {
            assert_eq!(blank_text(text), code, "{text}");
        }
    }
}
