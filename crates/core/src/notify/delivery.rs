//! Deliveries: one message to one channel, sent until it arrives, in order, with a record of every attempt.

use super::message::{Message, Sent};
use crate::id::{AlertId, DeliveryId};
use crate::name::Name;
use crate::words::words;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The first wait after an attempt that failed; it doubles with every further one.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(2);

/// The longest wait.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(10);

/// The longest wait that the other side may ask for.
const LONGEST_ASKED: SignedDuration = SignedDuration::from_hours(1);

/// How long a message is tried.
const PATIENCE: SignedDuration = SignedDuration::from_hours(72);

/// How long a message keeps back those behind it while it is tried. After that something must be wrong with it alone.
pub const HOLDS_UP: SignedDuration = SignedDuration::from_hours(1);

/// How many attempts are kept.
const ATTEMPTS_KEPT: usize = 20;

/// The most of an answer or an error that is kept.
const WORDS_MAX_CHARS: usize = 500;

words! {
    /// Where a delivery is.
    pub enum DeliveryState as "state of a delivery" {
        /// It is in its channel's line, or on its way.
        Waiting = "waiting",
        /// It arrived.
        Arrived = "arrived",
        /// It was given up: the other side does not want it, or was out of reach for three days.
        Failed = "failed",
        /// Somebody took it out of the line.
        Dropped = "dropped",
    }
}

/// One attempt to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it ended, by the store's clock.
    pub at: Timestamp,
    /// Whether it arrived.
    pub arrived: bool,
    /// What the other side said, or why it did not arrive.
    pub answer: String,
}

/// One message to one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its identity, in the order of the line; the same over all attempts.
    pub id: DeliveryId,
    /// Where to.
    pub channel: Name,
    /// Of which alert.
    pub alert_id: Option<AlertId>,
    /// What it tells.
    pub message: Message,
    /// Where it is.
    pub state: DeliveryState,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it is sent, or sent again.
    pub next_at: Timestamp,
    /// When it was first tried; again from the beginning when somebody sends it again.
    pub tried_since: Option<Timestamp>,
    /// How often it was tried since then.
    pub tries: u32,
    /// The latest attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// When it came to its end.
    pub ended_at: Option<Timestamp>,
}

impl Delivery {
    /// A message that is to be sent now.
    pub fn new(id: DeliveryId, channel: Name, message: Message, now: Timestamp) -> Self {
        Self {
            id,
            channel,
            alert_id: message.alert_id,
            message,
            state: DeliveryState::Waiting,
            created_at: now,
            next_at: now,
            tried_since: None,
            tries: 0,
            attempts: Vec::new(),
            ended_at: None,
        }
    }

    /// How an attempt ended, and what follows. `chance` spreads the waits, and is any number.
    pub fn attempted(&mut self, sent: Sent, now: Timestamp, chance: u64) {
        let since = *self.tried_since.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        let (arrived, answer, wait) = match sent {
            Sent::Arrived { answer } => (true, answer, None),
            Sent::Refused { error } => (false, error, None),
            Sent::Failed { error, retry_after } => (false, error, Some(self.wait(retry_after, chance))),
        };
        let given_up = now.duration_since(since) >= PATIENCE;
        match wait {
            Some(wait) if !given_up => self.next_at = now.saturating_add(wait).unwrap_or(Timestamp::MAX),
            _ => {
                self.state = if arrived { DeliveryState::Arrived } else { DeliveryState::Failed };
                self.ended_at = Some(now);
            }
        }
        let answer = crate::closing::storable_text(&answer).chars().take(WORDS_MAX_CHARS).collect();
        self.attempts.push(Attempt { at: now, arrived, answer });
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS_KEPT);
        self.attempts.drain(..surplus);
    }

    /// What the other side asks for, or a wait that grows.
    fn wait(&self, asked: Option<SignedDuration>, chance: u64) -> SignedDuration {
        if let Some(asked) = asked {
            return asked.clamp(SignedDuration::ZERO, LONGEST_ASKED);
        }
        let doubled = FIRST_WAIT.checked_mul(1 << (self.tries - 1).min(16)).unwrap_or(LONGEST_WAIT);
        let whole = doubled.min(LONGEST_WAIT);
        // Less up to a quarter by chance.
        let less = i64::try_from(chance % 256).unwrap_or(0);
        let millis = i64::try_from(whole.as_millis()).unwrap_or(i64::MAX);
        SignedDuration::from_millis(millis - millis / 4 * less / 256)
    }

    /// Sends it again, now, and as if for the first time.
    pub fn resend(&mut self, now: Timestamp) {
        (self.state, self.next_at, self.ended_at) = (DeliveryState::Waiting, now, None);
        (self.tried_since, self.tries) = (None, 0);
    }

    /// Takes it out of the line.
    pub fn take_out(&mut self, now: Timestamp) {
        if self.state == DeliveryState::Waiting {
            (self.state, self.ended_at) = (DeliveryState::Dropped, Some(now));
        }
    }

    /// Whether those behind it in its channel's line must wait for it.
    pub fn holds_up(&self, now: Timestamp) -> bool {
        let tried_long = self.tried_since.is_some_and(|since| now.duration_since(since) >= HOLDS_UP);
        self.state == DeliveryState::Waiting && !tried_long
    }
}

/// Which of a channel's line is sent next, if it is time; the line is in order of ids. One whose way is barred holds up
/// everybody for an hour, and those of its own alert always.
pub fn head_of_line(line: &[Delivery], now: Timestamp) -> Option<usize> {
    let mut barred = Vec::new();
    for (index, delivery) in line.iter().enumerate() {
        let own = delivery.alert_id.is_some() && barred.contains(&delivery.alert_id);
        if delivery.next_at <= now && !own {
            return Some(index);
        }
        if delivery.holds_up(now) {
            return None;
        }
        barred.push(delivery.alert_id);
    }
    None
}

/// When a line that does not move by itself is worth another look.
pub fn line_moves_at(line: &[Delivery], now: Timestamp) -> Option<Timestamp> {
    let until = |since: Timestamp| since.saturating_add(HOLDS_UP).unwrap_or(Timestamp::MAX);
    let times = line.iter().flat_map(|delivery| [Some(delivery.next_at), delivery.tried_since.map(until)]);
    times.flatten().filter(|at| *at > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn delivery(number: u8, alert: u8) -> Delivery {
        let id = DeliveryId::from_bytes([number; 16]);
        let channel = Name::new("ops").expect("a name");
        let message = Message { alert_id: Some(AlertId::from_bytes([alert; 16])), ..Message::test(at(0)) };
        Delivery::new(id, channel, message, at(0))
    }

    fn failed() -> Sent {
        Sent::Failed { error: "503".to_owned(), retry_after: None }
    }

    #[test]
    fn n04_waits_grow_to_ten_minutes_and_end_after_three_days() {
        let mut delivery = delivery(1, 1);
        let mut now = at(0);
        let mut waits = Vec::new();
        while delivery.state == DeliveryState::Waiting {
            delivery.attempted(failed(), now, 0);
            waits.push(delivery.next_at.duration_since(now).as_secs());
            now = delivery.next_at;
        }
        assert_eq!(waits[..10], [2, 4, 8, 16, 32, 64, 128, 256, 512, 600]);
        assert_eq!(delivery.state, DeliveryState::Failed);
        assert!(now.duration_since(at(0)) >= PATIENCE && now.duration_since(at(0)) <= PATIENCE + LONGEST_WAIT);
        assert_eq!(delivery.attempts.len(), ATTEMPTS_KEPT);
        delivery.resend(now);
        delivery.attempted(Sent::Arrived { answer: "200".to_owned() }, now, 0);
        assert_eq!((delivery.state, delivery.tries), (DeliveryState::Arrived, 1));
    }

    #[test]
    fn n04_what_the_other_side_asks_for_is_kept_within_reason_and_a_refusal_ends_it() {
        let mut asked = delivery(1, 1);
        let after = |wait| Sent::Failed { error: "429".to_owned(), retry_after: Some(SignedDuration::from_secs(wait)) };
        asked.attempted(after(7), at(0), 99);
        assert_eq!(asked.next_at, at(7));
        asked.attempted(after(1_000_000), at(7), 99);
        assert_eq!(asked.next_at, at(7 + 3600));
        asked.attempted(Sent::Refused { error: "no\0".to_owned() }, at(9), 0);
        assert_eq!((asked.state, asked.ended_at), (DeliveryState::Failed, Some(at(9))));
        assert!(!asked.attempts[2].answer.contains('\0'));
    }

    #[test]
    fn n04_a_line_moves_in_order_until_one_has_held_it_up_for_an_hour() {
        let mut line = vec![delivery(1, 1), delivery(2, 2), delivery(3, 1)];
        assert_eq!(head_of_line(&line, at(0)), Some(0));
        line[0].attempted(failed(), at(0), 0);
        assert_eq!(head_of_line(&line, at(1)), None, "the second waits for the first");
        line[0].next_at = at(9000);
        assert_eq!(head_of_line(&line, at(3600)), Some(1), "an hour is enough");
        line.remove(1);
        assert_eq!(head_of_line(&line, at(3600)), None, "but not for its own alert");
        assert_eq!(head_of_line(&line, at(9000)), Some(0));
    }
}
