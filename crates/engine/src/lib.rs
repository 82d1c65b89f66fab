//! The loops that fire, dispatch, work, recover and deliver; sees `punctual-core` only.
//!
//! Each loop is a thin ticker around one *pass* function that returns counts. Tests call the pass.

mod again;
pub mod backfill;
pub mod bulk;
pub mod clock;
pub mod declare;
pub mod dispatch;
mod ends;
pub mod fire;
mod floor;
pub mod flow;
mod frozen;
pub mod lease;
mod measure;
pub mod memory;
mod messenger;
pub mod node;
pub mod notify;
pub mod offers;
mod pace;
mod permit;
mod phase;
pub mod reconcile;
pub mod recover;
pub mod retain;
pub mod scribe;
pub mod secrets;
pub mod stop;
mod stuck;
mod talk;
pub mod targets;
mod traced;
pub mod work;
