//! How often one token or one address may ask.

use crate::problem::{Answered, Problem};
use crate::settings::Settings;
use axum::http::StatusCode;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use uuid::Uuid;

/// How many keys are remembered before those are forgotten that have been quiet.
const KEYS_MAX: usize = 10_000;

/// The limits of one server, in memory: each node counts for itself.
#[derive(Debug)]
pub(crate) struct Limits {
    tokens: DefaultKeyedRateLimiter<Uuid>,
    strangers: DefaultKeyedRateLimiter<IpAddr>,
    services: DefaultKeyedRateLimiter<Uuid>,
}

impl Limits {
    pub(crate) fn new(settings: &Settings) -> Self {
        let twice = |rate: NonZeroU32| Quota::per_second(rate).allow_burst(rate.saturating_mul(TWO));
        Self {
            tokens: RateLimiter::keyed(twice(settings.token_rate)),
            strangers: RateLimiter::keyed(twice(settings.stranger_rate)),
            services: RateLimiter::keyed(twice(settings.service_rate)),
        }
    }

    /// Counts a request of a token.
    pub(crate) fn token(&self, id: Uuid) -> Answered<()> {
        check(&self.tokens, &id)
    }

    /// Counts a request of a service.
    pub(crate) fn service(&self, id: Uuid) -> Answered<()> {
        check(&self.services, &id)
    }

    /// Counts a request that came without a valid token.
    pub(crate) fn stranger(&self, address: IpAddr) -> Answered<()> {
        check(&self.strangers, &address)
    }
}

const TWO: NonZeroU32 = NonZeroU32::new(2).unwrap();

fn check<K: Hash + Eq + Clone>(limiter: &DefaultKeyedRateLimiter<K>, key: &K) -> Answered<()> {
    if limiter.len() > KEYS_MAX {
        limiter.retain_recent();
    }
    limiter.check_key(key).map_err(|until| {
        let wait = until.wait_time_from(DefaultClock::default().now()).as_secs().saturating_add(1);
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", "more requests came than are allowed")
            .remedy(format!("wait {wait} s, as Retry-After says, and send fewer at once"))
            .retry_after(wait)
    })
}
