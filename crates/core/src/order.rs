//! Queue order and the gapped positions that make moving a job one update (C05, C06).

use crate::id::JobId;
use jiff::Timestamp;
use std::cmp::{Ordering, Reverse};

/// The gap between two positions as they are handed out: a sequence times this, so that an insert asks for no `max()`.
pub const POSITION_GAP: i64 = 1 << 20;

/// A job's place in its queue. Its order is the queue's order: priority descending, position ascending,
/// `created_at` ascending, id last; the same stored state gives the same order, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Larger goes first.
    pub priority: i32,
    /// Smaller goes first.
    pub position: i64,
    /// Older goes first.
    pub created_at: Timestamp,
    /// The last tie-break, so that the order is total.
    pub job_id: JobId,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |p: &Self| (Reverse(p.priority), p.position, p.created_at, p.job_id);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where a job is moved to, within its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Before everything of its priority.
    ToFront,
    /// Behind everything of its priority.
    ToBack,
    /// Directly before another queued job, at that job's priority.
    Before(JobId),
    /// Directly behind another queued job, at that job's priority.
    After(JobId),
    /// To the back of another priority.
    ToPriority(i32),
}

/// A position strictly between two neighbours, or `None` when the gap is used up and the neighbourhood must be
/// renumbered first. No neighbour means the end of the queue on that side.
pub fn between(before: Option<i64>, after: Option<i64>) -> Option<i64> {
    match (before, after) {
        (None, None) => Some(0),
        (Some(low), None) => low.checked_add(POSITION_GAP),
        (None, Some(high)) => high.checked_sub(POSITION_GAP),
        (Some(low), Some(high)) => {
            let middle = i64::try_from(i128::midpoint(low.into(), high.into())).ok()?;
            (low < middle && middle < high).then_some(middle)
        }
    }
}

/// New positions for `count` neighbours, in order, strictly between two bounds, or `None` when there is no room
/// and a wider neighbourhood must be taken.
pub fn spread(count: usize, low: Option<i64>, high: Option<i64>) -> Option<Vec<i64>> {
    let count = i128::try_from(count).ok()?;
    let (low, step) = match (low, high) {
        (None, None) => (0, i128::from(POSITION_GAP)),
        (Some(low), None) => (i128::from(low), i128::from(POSITION_GAP)),
        (None, Some(high)) => {
            let gap = i128::from(POSITION_GAP);
            (i128::from(high) - gap * (count + 1), gap)
        }
        // A bound's tie-break is unknown here, so the new positions stay clear of it.
        (Some(low), Some(high)) => (i128::from(low), (i128::from(high) - i128::from(low)) / (count + 1)),
    };
    // Less than two would leave no gap to move into, and the next move would renumber again.
    if step < 2 {
        return None;
    }
    (1..=count).map(|n| i64::try_from(low + step * n).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn place(priority: i32, position: i64, created: i64, id: u128) -> Place {
        Place {
            priority,
            position,
            created_at: Timestamp::from_second(created).unwrap(),
            job_id: JobId(Uuid::from_u128(id)),
        }
    }

    #[test]
    fn c05_priority_then_position_then_age_then_id() {
        let ordered = [place(5, 9, 9, 9), place(1, 1, 9, 9), place(1, 2, 1, 9), place(1, 2, 2, 1), place(1, 2, 2, 2)];
        let mut shuffled = ordered;
        shuffled.reverse();
        shuffled.sort();
        assert_eq!(shuffled, ordered);
    }

    #[test]
    fn c06_a_used_up_gap_is_told_apart_from_a_free_one() {
        assert_eq!(between(Some(1), Some(3)), Some(2));
        assert_eq!(between(Some(1), Some(2)), None);
        assert_eq!(between(Some(2), Some(2)), None);
        assert_eq!(between(Some(i64::MAX), None), None);
        assert_eq!(between(Some(i64::MIN), Some(i64::MAX)), Some(0));
    }

    proptest! {
        #[test]
        fn c06_spread_positions_are_increasing_and_inside(count in 1usize..200, low in any::<i64>(), width in 0i64..10_000) {
            let high = low.saturating_add(width);
            if let Some(positions) = spread(count, Some(low), Some(high)) {
                prop_assert_eq!(positions.len(), count);
                prop_assert!(positions.windows(2).all(|w| w[0] < w[1]));
                prop_assert!(positions[0] > low && positions[count - 1] < high);
            }
        }
    }
}
