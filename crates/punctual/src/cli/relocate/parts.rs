//! Where a move stands, judged by the parts that both stores have noted: what to do next, or why not.

use punctual_core::transfer::{Move, MoveStage};
use uuid::Uuid;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing has begun.
    New,
    /// The first store is leaving, and the other has not heard of it.
    Leaving(Uuid),
    /// Rows are on their way.
    Carrying(Uuid),
    /// Everything has arrived, and the first store does not know yet.
    Arrived(Uuid),
    /// There is nothing left to do.
    Done(Uuid),
}

const GIVEN_UP: &str = "this move is being given up; finish that with --abandon";

/// Judges both parts. `to_name` is the address that is asked for, which a move that has begun must have, too.
pub(super) fn judge(from: Option<&Move>, to: Option<&Move>, to_name: &str) -> Result<Standing, String> {
    use MoveStage::{Abandoned, Arrived, Arriving, Leaving, Left, Staying};
    let stage = |part: Option<&Move>| part.map(|part| part.stage);
    match (from, to) {
        (Some(from), Some(to)) if from.id == to.id => match (from.stage, to.stage) {
            (Leaving, Arriving) => Ok(Standing::Carrying(from.id)),
            (Leaving | Staying, Arrived) => Ok(Standing::Arrived(from.id)),
            (Left, Arrived) => Ok(Standing::Done(from.id)),
            (Leaving, Leaving) | (Staying, Staying) => {
                Err("--from and --to are the same store; name another one with --to".to_owned())
            }
            (Leaving, Abandoned) | (Staying, _) => Err(GIVEN_UP.to_owned()),
            _ => Err("--from holds what was moved from --to; to move it back, name another, empty store".to_owned()),
        },
        (Some(Move { stage: Leaving, id, other, .. }), None) if other == to_name => Ok(Standing::Leaving(*id)),
        (Some(Move { stage: Staying, .. }), _) => Err(GIVEN_UP.to_owned()),
        (Some(Move { stage: Leaving, other, .. }), Some(to)) if other == to_name => {
            let told = format!("--to is one side of another move, with {}", to.other);
            Err(format!("{told}; it cannot be known whether --from has arrived there before, so that it stays frozen"))
        }
        (Some(Move { stage: Leaving, other, .. }), _) => {
            Err(format!("--from is being moved to {other}; go on with --to {other}, or give that up with --abandon"))
        }
        (Some(Move { stage: Left, other, .. }), _) => {
            Err(format!("--from has moved to {other} already; name that one with --from"))
        }
        (Some(Move { stage: Arriving, other, .. }), _) => {
            Err(format!("{other} is still being moved into --from; finish that first"))
        }
        (Some(Move { stage: Abandoned, .. }), _) => {
            Err("--from holds a part of a move that was given up; throw it away".to_owned())
        }
        (None | Some(Move { stage: Arrived, .. }), Some(_)) if stage(to) == Some(Abandoned) => {
            Err("--to holds a part of a move that was given up; throw it away, and make it anew".to_owned())
        }
        (None | Some(Move { stage: Arrived, .. }), Some(to)) => {
            Err(format!("--to is one side of another move, with {}; name an empty store", to.other))
        }
        (None | Some(Move { stage: Arrived, .. }), None) => Ok(Standing::New),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MoveStage::{Abandoned, Arrived, Arriving, Leaving, Left, Staying};

    fn part(id: u128, stage: MoveStage) -> Move {
        Move { id: Uuid::from_u128(id), stage, other: "there".to_owned(), began_at: jiff::Timestamp::UNIX_EPOCH }
    }

    fn judged(from: Option<(u128, MoveStage)>, to: Option<(u128, MoveStage)>) -> Result<Standing, String> {
        let of = |given: Option<(u128, MoveStage)>| given.map(|(id, stage)| part(id, stage));
        judge(of(from).as_ref(), of(to).as_ref(), "there")
    }

    #[test]
    fn c09_a_move_goes_on_where_both_stores_say_it_stood() {
        let id = Uuid::from_u128(1);
        assert_eq!(judged(None, None), Ok(Standing::New));
        assert_eq!(judged(Some((7, Arrived)), None), Ok(Standing::New), "what has arrived may leave again");
        assert_eq!(judged(Some((1, Leaving)), None), Ok(Standing::Leaving(id)));
        assert_eq!(judged(Some((1, Leaving)), Some((1, Arriving))), Ok(Standing::Carrying(id)));
        assert_eq!(judged(Some((1, Leaving)), Some((1, Arrived))), Ok(Standing::Arrived(id)));
        assert_eq!(judged(Some((1, Staying)), Some((1, Arrived))), Ok(Standing::Arrived(id)), "given up too late");
        assert_eq!(judged(Some((1, Left)), Some((1, Arrived))), Ok(Standing::Done(id)));
    }

    #[test]
    fn c09_stores_of_different_moves_are_never_mixed() {
        let stages = [Leaving, Staying, Left, Arriving, Arrived, Abandoned];
        for from in std::iter::once(None).chain(stages.map(|stage| Some((1, stage)))) {
            for to in stages {
                assert!(judged(from, Some((2, to))).is_err(), "{from:?} and {to:?}");
            }
        }
        assert!(judged(Some((1, Leaving)), Some((1, Leaving))).is_err(), "one store under two names");
        assert!(judged(Some((1, Leaving)), Some((1, Abandoned))).is_err());
        assert!(judged(Some((1, Staying)), Some((1, Arriving))).is_err());
        assert!(judged(Some((1, Staying)), None).is_err());
        assert!(judge(Some(&part(1, Leaving)), None, "elsewhere").unwrap_err().contains("there"));
    }
}
