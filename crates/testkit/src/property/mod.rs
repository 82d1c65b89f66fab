//! Random histories: the model and a store go through the same steps, and everything that can be seen is compared.

mod compare;
pub(crate) mod drive;
pub(crate) mod ops;
mod steering;

use crate::harness::{Harness, block_on};
use drive::Drive;
use ops::{Op, history};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::fmt::Write as _;

/// How many histories are tried unless `PUNCTUAL_MODEL_CASES` says otherwise.
const CASES: u32 = 24;

/// The longest history.
const STEPS: usize = 120;

/// How often a failing history is gone through to shorten it; the chunks that are left out are halved each time.
const SHORTENINGS: usize = 9;

/// What the histories follow from unless `PUNCTUAL_MODEL_SEED` says otherwise.
const SEED: u64 = 2026;

/// Makes one `#[test]` that compares the store of a harness with the model.
///
/// ```text
/// punctual_testkit::model_test!(SqliteHarness::new());
/// ```
#[macro_export]
macro_rules! model_test {
    ($harness:expr) => {
        #[test]
        fn c16_the_store_agrees_with_the_model_after_every_step() {
            $crate::property::assert_agrees_with_model(&$harness);
        }
    };
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")),
        Err(_) => default,
    }
}

/// How much stack the histories need: values of many kinds are made in place, and nothing is optimised in tests.
const STACK_BYTES: usize = 64 << 20;

/// Drives a store and the model through random histories; panics with the seed and the shortest one that fails.
pub fn assert_agrees_with_model(harness: &dyn Harness) {
    let verdict = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, || try_histories(harness)).expect("a thread can be started").join()
    });
    match verdict {
        Ok(Ok(())) => {}
        Ok(Err(told)) => panic!("{told}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn try_histories(harness: &dyn Harness) -> Result<(), String> {
    let seed = setting("PUNCTUAL_MODEL_SEED", SEED);
    let cases = u32::try_from(setting("PUNCTUAL_MODEL_CASES", u64::from(CASES))).unwrap_or(u32::MAX);
    // Histories are shortened here, by leaving steps out, which gets further than making each value smaller.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(&history(STEPS), |history| {
        play(harness, &history).map_err(|parted| TestCaseError::fail(parted.difference))
    });
    result.map_err(|error| match error {
        TestError::Fail(_, history) => {
            let history = shorten(harness, history);
            told(seed, &history, play(harness, &history).err())
        }
        TestError::Abort(reason) => format!("no history could be made: {reason}"),
    })
}

/// Where a store and the model parted.
struct Parted {
    step: usize,
    difference: String,
}

/// Goes through one history.
fn play(harness: &dyn Harness, history: &[Op]) -> Result<(), Parted> {
    block_on(async {
        let mut drive = Drive::new(harness.open().await);
        for (step, op) in history.iter().enumerate() {
            let taken = async {
                drive.step(op).await?;
                drive.compare().await
            };
            taken.await.map_err(|difference| Parted { step, difference })?;
        }
        drive.check().await.map_err(|difference| Parted { step: history.len().saturating_sub(1), difference })
    })
}

/// Leaves out steps, many at once and then fewer, as long as the two still part; hands back what is left.
fn shorten(harness: &dyn Harness, mut history: Vec<Op>) -> Vec<Op> {
    let mut chunk = history.len();
    for _ in 0..SHORTENINGS {
        let mut start = 0;
        while start < history.len() {
            let mut shorter = history.clone();
            shorter.drain(start..history.len().min(start + chunk));
            match play(harness, &shorter) {
                Err(parted) => {
                    shorter.truncate(parted.step + 1);
                    history = shorter;
                }
                Ok(()) => start += chunk,
            }
        }
        chunk = (chunk / 2).max(1);
    }
    history
}

fn told(seed: u64, history: &[Op], parted: Option<Parted>) -> String {
    let difference = parted.map_or_else(|| "not every time".to_owned(), |parted| parted.difference);
    let mut text = format!("the store and the model part (PUNCTUAL_MODEL_SEED={seed}): {difference}\n");
    for (number, op) in history.iter().enumerate() {
        let _ = writeln!(text, "  {number}: {op:?}");
    }
    text
}
