//! Telling people: channels, the rules by which they are told, the alerts that come of them, and what is sent.
//!
//! The store hands the news of its outbox, and what it finds to be wrong, to an [`AlertBook`](book::AlertBook), in one
//! transaction; the book says which alerts begin, go on and end, and which messages are due. Nothing here has a clock.

pub mod alert;
pub mod book;
pub mod channel;
pub mod delivery;
pub mod event;
pub mod look;
pub mod message;
pub mod port;
pub mod quiet;
pub mod rule;
pub mod wording;
