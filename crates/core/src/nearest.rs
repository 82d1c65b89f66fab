//! The word that was probably meant, when one is not known.

/// The known word that looks most like another, if one does.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|candidate| (distance(word, candidate), candidate));
    scored.filter(|(far, candidate)| *far <= candidate.len().max(3) / 3).min().map(|(_, candidate)| candidate)
}

/// How many letters must change to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nearly_right_is_recognised() {
        let known = ["listen", "lease", "database"];
        assert_eq!(nearest("lisen", known.into_iter()), Some("listen"));
        assert_eq!(nearest("databse", known.into_iter()), Some("database"));
        assert_eq!(nearest("colour", known.into_iter()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
