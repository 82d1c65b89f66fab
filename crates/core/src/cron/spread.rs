//! The stable hash behind `H` and `~`: same seed, same value, on every platform and version.

use super::error::Field;

/// A number below `choices`, fixed by the seed, the field and the item's place in the field.
///
/// The result is part of what a stored schedule means, so neither the constants nor the order may
/// ever change (a test pins them); the standard library's hashers promise no such thing.
pub(super) fn spread(seed: &str, field: Field, item: u64, choices: u8) -> u8 {
    let place = field.as_str().bytes().chain(item.to_le_bytes());
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    // The 0xff byte, which UTF-8 never contains, keeps seed and place apart.
    for byte in seed.bytes().chain([0xff]).chain(place) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // FNV-1a leaves its low bits poorly mixed for short seeds; one avalanche evens them out.
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    u8::try_from(hash % u64::from(choices.max(1))).unwrap_or(0)
}
