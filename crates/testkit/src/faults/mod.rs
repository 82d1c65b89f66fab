//! What a test does to the world around a process: cut connections, wrong clocks, small disks.

mod clock;
mod disk;
mod proxy;

pub use clock::{FakeClock, shifted_clock};
pub use disk::{SmallDisk, as_root};
pub use proxy::{CutProxy, Exchange, Side, message_starts};
