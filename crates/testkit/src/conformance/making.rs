//! How the cases become tests of a store.

/// Makes one `#[test]` of every case for the store that a harness opens.
///
/// ```text
/// punctual_testkit::conformance!(SqliteHarness::new());
/// ```
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        /// Opens the store that the cases run on.
        fn conformance_harness() -> impl $crate::Harness {
            $harness
        }

        $crate::for_each_conformance_case!($crate::__conformance_tests);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($( $group:ident { $( $(@ $only:ident ($why:literal))? $case:ident, )+ } )+) => { $(
        mod $group { $(
            #[test]
            fn $case() {
                let only = $crate::__only!($( $only $why )?);
                $crate::harness::run_case(&super::conformance_harness(), only, |world| {
                    Box::pin($crate::conformance::$group::$case(world))
                });
            }
        )+ }
    )+ };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __only {
    () => {
        None
    };
    (sqlite_only $why:literal) => {
        Some(($crate::StoreKind::Sqlite, $why))
    };
    (postgres_only $why:literal) => {
        Some(($crate::StoreKind::Postgres, $why))
    };
}
