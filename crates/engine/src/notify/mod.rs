//! Telling people what happened.

#[cfg(feature = "http")]
pub mod courier;
