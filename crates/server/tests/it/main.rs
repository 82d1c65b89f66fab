//! The server over a real socket, on both stores.

mod access;
mod bad_input;
#[path = "../../build/bundle.rs"]
mod bundle;
mod bundles;
mod client;
mod dashboard;
mod doctor;
mod events;
mod graphs;
mod langgraph;
mod manifest_edges;
mod manifests;
mod notifications;
mod overview;
mod policies;
mod resources;
mod tls;
mod world;

/// Runs each test on SQLite and on PostgreSQL.
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $( #[test] fn $test() { $crate::world::run(async { super::$test(&$crate::world::World::sqlite().await).await }) } )+
        }
        mod postgres {
            $( #[test] fn $test() { $crate::world::run(async { super::$test(&$crate::world::World::postgres().await).await }) } )+
        }
    };
}
pub(crate) use on_both_stores;
