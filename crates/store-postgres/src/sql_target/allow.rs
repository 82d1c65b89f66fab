//! Which functions may be called: patterns over the names that the catalog holds.

use std::str::FromStr;

/// `schema.function`, each as SQL writes it; `*` stands for any letters of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionPattern {
    schema: String,
    function: String,
}

/// Text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAPattern(String);

impl std::error::Error for NotAPattern {}

impl std::fmt::Display for NotAPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` names no functions; write schema.function, schema.* or schema.clean_*", self.0)
    }
}

impl FromStr for FunctionPattern {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Self, NotAPattern> {
        let mut quoted = false;
        let mut dots = text.char_indices().filter(|(_, c)| {
            quoted ^= *c == '"';
            *c == '.' && !quoted
        });
        match (dots.next(), dots.next()) {
            (Some((at, _)), None) if at > 0 && at + 1 < text.len() && !quoted => {
                Ok(Self { schema: folded(&text[..at]), function: folded(&text[at + 1..]) })
            }
            _ => Err(NotAPattern(text.chars().take(80).collect())),
        }
    }
}

/// What is not in quotes is read in small letters, as everywhere in SQL.
fn folded(part: &str) -> String {
    if part.starts_with('"') { part.to_owned() } else { part.to_ascii_lowercase() }
}

impl FunctionPattern {
    /// Whether it covers a function, whose names are quoted where SQL would have to quote them.
    pub(crate) fn covers(&self, schema: &str, function: &str) -> bool {
        fits(&self.schema, schema) && fits(&self.function, function)
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.split_once(part) {
            Some((_, behind)) => left = behind,
            None => return false,
        }
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, schema: &str, function: &str) -> bool {
        pattern.parse::<FunctionPattern>().unwrap().covers(schema, function)
    }

    #[test]
    fn b12_patterns_cover_what_they_say_and_no_more() {
        assert!(covers("jobs.clean_up", "jobs", "clean_up"));
        assert!(covers("Jobs.Clean_Up", "jobs", "clean_up"));
        assert!(covers(r#""Jobs"."Clean.Up""#, r#""Jobs""#, r#""Clean.Up""#));
        assert!(covers("jobs.*", "jobs", r#""; DROP""#));
        assert!(covers("jobs.clean_*", "jobs", "clean_up"));
        assert!(covers("*.*", "any", "thing"));
        assert!(covers("jobs.a*b*c", "jobs", "a-b-b-c"));
        assert!(!covers("jobs.*", "jobs_too", "clean_up"));
        assert!(!covers("jobs.*", r#""Jobs""#, "clean_up"));
        assert!(!covers("jobs.clean_*", "jobs", "unclean_up"));
        assert!(!covers("jobs.a*b*c", "jobs", "a-c"));
        assert!(!covers("jobs.aa*aa", "jobs", "aaa"));
    }

    #[test]
    fn b12_what_is_no_pattern_is_refused() {
        for text in ["", "clean_up", ".f", "s.", "a.b.c", "*", "\"a.b", "a.\"b"] {
            assert!(text.parse::<FunctionPattern>().is_err(), "{text}");
        }
    }
}
