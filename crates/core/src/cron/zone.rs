//! Time zone names: IANA names only, and what was probably meant when one is unknown.

use jiff::tz::{TimeZone, db};

/// No IANA name comes near it; longer input is refused unread.
const MAX_NAME_BYTES: usize = 64;

/// A name that is no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// Nothing was given.
    #[error("the time zone is empty; use an IANA name such as Europe/Berlin, or UTC")]
    Empty,
    /// Longer than any name.
    #[error("a time zone name of {0} bytes is too long; use an IANA name such as Europe/Berlin")]
    TooLong(usize),
    /// `Local` and the like depend on the machine, and a schedule must not.
    #[error("{0:?} depends on the machine; name the zone itself, such as Europe/Berlin")]
    MachineDependent(String),
    /// A POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    #[error("{0:?} is a POSIX rule; use an IANA name such as Europe/Berlin")]
    Posix(String),
    /// Not in the zone database.
    #[error("unknown time zone {name:?}{}", did_you_mean(.suggestions))]
    Unknown {
        /// What was given.
        name: String,
        /// The nearest known names, best first.
        suggestions: Vec<String>,
    },
}

/// The time zone of an IANA name, in any case.
///
/// ```
/// use punctual_core::cron::zone;
///
/// assert_eq!(zone("europe/berlin")?.iana_name(), Some("Europe/Berlin"));
/// assert_eq!(
///     zone("Europe/Belrin").unwrap_err().to_string(),
///     "unknown time zone \"Europe/Belrin\"; did you mean Europe/Berlin?"
/// );
/// # Ok::<(), punctual_core::cron::ZoneError>(())
/// ```
pub fn zone(name: &str) -> Result<TimeZone, ZoneError> {
    if name.trim().is_empty() {
        return Err(ZoneError::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(ZoneError::TooLong(name.len()));
    }
    let lower = name.to_ascii_lowercase();
    if matches!(lower.as_str(), "local" | "localtime" | "system" | "posixrules") {
        return Err(ZoneError::MachineDependent(name.to_owned()));
    }
    if name.contains([',', '<', ':']) {
        return Err(ZoneError::Posix(name.to_owned()));
    }
    // Zone names are file names to the database: nothing else may reach it. The `right` files
    // count leap seconds, which no other clock here does.
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "/_+-".contains(c))
        && !name.starts_with('/')
        && !lower.starts_with("posix/")
        && !lower.starts_with("right/");
    let found = if plain { TimeZone::get(name).ok() } else { None };
    // A zone without a name could not be stored and found again.
    found
        .filter(|zone| !zone.is_unknown() && zone.iana_name().is_some())
        .ok_or_else(|| ZoneError::Unknown { name: name.to_owned(), suggestions: suggestions(&lower) })
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => "; use an IANA name such as Europe/Berlin, or UTC".to_owned(),
        some => format!("; did you mean {}?", some.join(" or ")),
    }
}

/// Up to three names: those whose city it is, else those a few letters away.
fn suggestions(lower: &str) -> Vec<String> {
    let wanted = lower.replace(' ', "_");
    let mut near: Vec<(usize, String)> = db()
        .available()
        .filter_map(|known| {
            let candidate = known.as_str().to_ascii_lowercase();
            let city = candidate.rsplit('/').next().unwrap_or_default();
            // A name without its region counts as one letter worse, an exact city as none.
            let by_city = edits(&wanted, city).map(|edits| edits + usize::from(edits > 0));
            let best = edits(&wanted, &candidate).into_iter().chain(by_city).min()?;
            Some((best, known.as_str().to_owned()))
        })
        .collect();
    near.sort();
    near.dedup();
    let best = near.first().map_or(0, |(edits, _)| *edits);
    let best = near.into_iter().take_while(|(edits, _)| *edits == best);
    best.take(3).map(|(_, name)| name).collect()
}

/// Letters to insert, remove, replace or swap with the neighbour; `None` when they are too many
/// for a slip.
fn edits(a: &str, b: &str) -> Option<usize> {
    let limit = 1 + a.len().min(b.len()) / 5;
    // Most names are told apart by their length alone.
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut older: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(older[j - 2] + 1);
            }
        }
        if row.iter().all(|edits| *edits > limit) {
            return None;
        }
        older = std::mem::replace(&mut last, row);
    }
    Some(last[b.len()]).filter(|edits| *edits <= limit)
}
