//! Numbers that look like chance and follow from the seed and from what they decide, in whatever order they are asked for.

use jiff::SignedDuration;

/// The constants of FNV-1a, which mixes what a decision is about.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Dice for one decision.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// The dice for the `number`th decision about something.
    pub(super) fn new(seed: u64, about: &str, number: i64) -> Dice {
        let parts = [&seed.to_be_bytes()[..], about.as_bytes(), &number.to_be_bytes()[..]];
        let mix = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        Dice(parts.concat().iter().fold(FNV_START, mix))
    }

    /// The next number (`splitmix64`).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to below a bound.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Whether something happens that does so many times in a thousand.
    pub(super) fn per_mille(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// A time between two.
    pub(super) fn between_ms(&mut self, least: i64, most: i64) -> SignedDuration {
        let room = u64::try_from(most - least + 1).unwrap_or(1);
        SignedDuration::from_millis(least + i64::try_from(self.below(room)).unwrap_or(0))
    }

    /// One of several.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let place = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        from.get(place).copied()
    }

    /// One of several words.
    pub(super) fn word(&mut self, from: &[&'static str]) -> &'static str {
        self.pick(from).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throws(seed: u64, about: &str, number: i64) -> Vec<u64> {
        let mut dice = Dice::new(seed, about, number);
        (0..50).map(|_| dice.below(1000)).collect()
    }

    #[test]
    fn the_same_decision_falls_the_same_way_and_another_does_not() {
        assert_eq!(throws(1, "email.send", 7), throws(1, "email.send", 7));
        for other in [throws(2, "email.send", 7), throws(1, "image.resize", 7), throws(1, "email.send", 8)] {
            assert_ne!(throws(1, "email.send", 7), other);
        }
    }

    #[test]
    fn times_lie_between_their_bounds_and_words_among_their_kind() {
        let mut dice = Dice::new(1, "bounds", 0);
        for _ in 0..1000 {
            let time = dice.between_ms(5, 9).as_millis();
            assert!((5..=9).contains(&time));
            assert!(["a", "b"].contains(&dice.word(&["a", "b"])));
        }
        assert_eq!(dice.word(&[]), "");
    }
}
