//! Identities: one type for each kind of thing, so that no two can be confused.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($( $(#[$meta:meta])* $name:ident ),+ $(,)?) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new identity whose order follows the time it was made at. The time is the store's, never the
            /// caller's, so that ids of one store sort by creation whichever node asked for them.
            pub fn at(now: Timestamp, randomness: [u8; 8]) -> Self {
                Self(time_ordered(now, randomness))
            }

            /// Larger than every identity that was made up to the millisecond of an instant.
            pub fn behind(at: Timestamp) -> Self {
                let millis = time_ordered(at, [0; 8]).as_u128() >> 80;
                Self(Uuid::from_u128((millis + 1) << 80))
            }

            /// An id before which nothing lies that was made at an instant or later, and behind which nothing that was
            /// made earlier.
            pub fn first_of(at: Timestamp) -> Self {
                let mut bytes = *time_ordered(at, [0; 8]).as_bytes();
                bytes[8..].fill(0);
                Self(Uuid::from_bytes(bytes))
            }

            /// When it was made, to the microsecond, if it was made by a store.
            pub fn made_at(&self) -> Timestamp {
                made_at(&self.0)
            }

            /// The sixteen bytes in which stores keep it.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Reads the sixteen bytes back.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl AsRef<[u8; 16]> for $name {
            fn as_ref(&self) -> &[u8; 16] {
                self.as_bytes()
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )+ };
}

ids! {
    /// A job, and with it its one run (`run_id` = `job_id`).
    JobId,
    /// A schedule.
    ScheduleId,
    /// One running process: a new one for every start, never the host's name.
    NodeId,
    /// A node's right to finish what it claimed: random, never from a sequence, so that it cannot come back.
    LeaseId,
    /// One call of claim, so that an unknown outcome can be found again.
    ClaimId,
    /// A job template.
    TemplateId,
    /// An execution grant.
    GrantId,
    /// A run of a graph, as its execution service knows it.
    GraphRunId,
    /// A process that carries graph runs to their end: a new one for every start.
    DriverId,
    /// A hold of a queue.
    ReservationId,
    /// News in the outbox.
    NoticeId,
    /// A trouble that people are told of, from its beginning to its end.
    AlertId,
    /// One message to one channel; the same over all attempts to deliver it.
    DeliveryId,
    /// A backfill.
    BackfillId,
    /// A bulk operation.
    BulkId,
    /// An API token.
    TokenId,
    /// A row of the audit log.
    AuditId,
}

impl LeaseId {
    /// A lease from 128 random bits.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bits).into_uuid())
    }
}

/// Makes the part of an id that is not the time: a random base that counts on, so that ids of one instant keep the
/// order in which they were made, and two processes do not meet.
#[derive(Debug)]
pub struct IdSource(u64);

impl IdSource {
    /// Begins at a random base.
    pub fn from_random(bits: u64) -> Self {
        // Below the two bits that a UUID's variant takes, with room to count.
        Self(bits >> 3)
    }

    /// The next one.
    pub fn next_bits(&mut self) -> [u8; 8] {
        self.0 = self.0.wrapping_add(1);
        self.0.to_be_bytes()
    }
}

/// A version 7 UUID: 48 bits of milliseconds, 12 bits of the microseconds within, 62 random bits.
///
/// The microseconds stand in `rand_a` (RFC 9562, section 6.2, method 3), so that the order of ids follows the order
/// of creation more closely than milliseconds would.
fn time_ordered(now: Timestamp, randomness: [u8; 8]) -> Uuid {
    let micros = u64::try_from(now.as_microsecond()).unwrap_or(0);
    let millis = (micros / 1000).to_be_bytes();
    let within = u16::try_from(micros % 1000 * 4).unwrap_or(0).to_be_bytes();
    let mut bytes = [0u8; 16];
    bytes[..6].copy_from_slice(&millis[2..]);
    bytes[6..8].copy_from_slice(&within);
    bytes[8..].copy_from_slice(&randomness);
    bytes[6] = (bytes[6] & 0x0f) | 0x70;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid::from_bytes(bytes)
}

fn made_at(id: &Uuid) -> Timestamp {
    let number = id.as_u128();
    let millis = i64::try_from(number >> 80).unwrap_or(0);
    let within = i64::try_from((number >> 64) & 0xfff).unwrap_or(0) / 4;
    Timestamp::from_microsecond(millis.saturating_mul(1000).saturating_add(within)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A slot's name: the schedule and the instant. Two jobs with one slot key cannot exist (A04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// Whose slot it is.
    pub schedule_id: ScheduleId,
    /// When the schedule is due by its definition.
    pub slot_at: Timestamp,
}

impl std::fmt::Display for SlotKey {
    /// `scheduleId:scheduledFor` in UTC and RFC 3339, the key that leaves Punctual as `Idempotency-Key`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.schedule_id, self.slot_at)
    }
}

/// A schedule by its id or its name; a name is never a UUID, so the two cannot be confused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleKey {
    /// By id.
    Id(ScheduleId),
    /// By name.
    Name(String),
}

impl From<ScheduleId> for ScheduleKey {
    fn from(id: ScheduleId) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for ScheduleKey {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

impl std::fmt::Display for ScheduleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a04_slot_key_is_schedule_id_and_utc_instant() {
        let key =
            SlotKey { schedule_id: ScheduleId(Uuid::from_u128(7)), slot_at: "2026-03-01T02:00:00Z".parse().unwrap() };
        assert_eq!(key.to_string(), "00000000-0000-0000-0000-000000000007:2026-03-01T02:00:00Z");
    }

    #[test]
    fn c05_an_instant_divides_ids_by_when_they_were_made() {
        let instant = Timestamp::from_microsecond(1_700_000_000_000_500).unwrap();
        let within = JobId::at(Timestamp::from_microsecond(1_700_000_000_000_999).unwrap(), [255; 8]);
        let later = JobId::at(Timestamp::from_microsecond(1_700_000_000_001_000).unwrap(), [0; 8]);
        assert!(within < JobId::behind(instant) && JobId::behind(instant) < later);
    }

    #[test]
    fn c05_ids_sort_by_the_microsecond_they_were_made_at() {
        let at = |micros| JobId::at(Timestamp::from_microsecond(micros).unwrap(), [255; 8]);
        let later = JobId::at(Timestamp::from_microsecond(1_700_000_000_000_001).unwrap(), [0; 8]);
        assert!(at(1_700_000_000_000_000) < later);
        assert!(at(1_699_999_999_999_999) < at(1_700_000_000_000_000));
        assert_eq!(later.0.get_version_num(), 7);
        assert_eq!(later.made_at().as_microsecond(), 1_700_000_000_000_001);
        assert!(
            JobId::first_of(later.made_at()) < later && at(1_700_000_000_000_000) < JobId::first_of(later.made_at())
        );
    }
}
