//! Chance that follows from a seed alone: a stream of numbers for each thing that is left to it.

/// A stream of numbers (splitmix64). What is asked of one stream never changes what another one says, so that a history
/// stays much the same when a part of it is left out.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of one thing.
    pub fn of(seed: u64, thing: &[u64]) -> Self {
        let mut chance = Self(seed);
        for part in thing {
            chance.0 = chance.number() ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93);
        }
        chance
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from one up to, and without, another.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let room = u64::try_from(to - from).expect("the range is not empty");
        from + i64::try_from(self.number() % room.max(1)).expect("it is within the range")
    }

    /// An index into something of that length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.number() % (length.max(1) as u64)).expect("it is below a usize")
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.number().is_multiple_of(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_thing_has_the_same_chance_and_another_one_another() {
        let numbers = |thing: &[u64]| {
            let mut chance = Chance::of(7, thing);
            [chance.number(), chance.number()]
        };
        assert_eq!(numbers(&[1, 2]), numbers(&[1, 2]));
        assert_ne!(numbers(&[1, 2]), numbers(&[2, 1]));
    }
}
