//! TLS against a real server: what each `sslmode` lets through, and what it refuses (A24).

use crate::harness::options;
use punctual_core::store::{Store, StoreResult};
use punctual_store_postgres::PostgresStore;
use punctual_testkit::VirtualClock;
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::{Authority, Database, PrivateServer};
use std::sync::Arc;

async fn connect(url: &str) -> StoreResult<PostgresStore> {
    PostgresStore::connect(url, options(Arc::new(VirtualClock::new()))).await
}

/// A database on a server that speaks TLS, under the names in its certificate, and the authority that issued it.
async fn secured(names: &str) -> (PrivateServer, Database, Authority) {
    let authority = Authority::new();
    let server = PrivateServer::start_with_tls(&authority.issue(names));
    let database = Database::empty_on(&server).await;
    (server, database, authority)
}

/// Whether the store's connection is encrypted.
async fn is_encrypted(database: &Database, store: &PostgresStore) -> bool {
    store.now().await.unwrap();
    let client = database.connect().await;
    let ssl = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
               WHERE application_name = 'punctual' AND datname = current_database()";
    client.query_one(ssl, &[]).await.unwrap().get(0)
}

#[test]
fn a24_verify_full_wants_the_right_authority_and_the_right_host() {
    block_on(async {
        let (_server, database, authority) = secured("DNS:localhost,IP:127.0.0.1").await;
        let by_name = database.url().replace("127.0.0.1", "localhost");
        let root = authority.certificate().to_string_lossy().into_owned();
        for url in [database.url(), by_name.clone()] {
            let store =
                connect(&format!("{url}?sslmode=verify-full&sslrootcert={root}")).await.expect("it is the host");
            assert!(is_encrypted(&database, &store).await);
        }
        let stranger = Authority::new();
        let other = stranger.certificate().to_string_lossy().into_owned();
        for trust in ["verify-full", "verify-ca", "require"] {
            let refused = connect(&format!("{by_name}?sslmode={trust}&sslrootcert={other}")).await;
            refused.expect_err("another authority issued it");
        }
        let system = connect(&format!("{by_name}?sslmode=verify-full")).await;
        system.expect_err("no authority of the machine issued it");
    });
}

#[test]
fn a24_a_certificate_of_another_host_is_refused_by_verify_full_alone() {
    block_on(async {
        let (_server, database, authority) = secured("DNS:db.example.org").await;
        let (url, root) = (database.url(), authority.certificate().to_string_lossy().into_owned());
        let refused = connect(&format!("{url}?sslmode=verify-full&sslrootcert={root}")).await.unwrap_err().to_string();
        assert!(refused.contains("not valid for name"), "{refused}");
        for trust in ["verify-ca", "require"] {
            let store =
                connect(&format!("{url}?sslmode={trust}&sslrootcert={root}")).await.expect("the chain is right");
            assert!(is_encrypted(&database, &store).await);
        }
    });
}

#[test]
fn a24_prefer_takes_what_there_is_and_disable_takes_none() {
    block_on(async {
        let (_server, database, _authority) = secured("DNS:db.example.org").await;
        for (mode, encrypted) in [("", true), ("?sslmode=prefer", true), ("?sslmode=require", true)] {
            let store = connect(&format!("{}{mode}", database.url())).await.unwrap();
            assert_eq!(is_encrypted(&database, &store).await, encrypted, "{mode}");
        }
        let plain = connect(&format!("{}?sslmode=disable", database.url())).await.unwrap();
        assert!(!is_encrypted(&database, &plain).await);
    });
}

#[test]
fn a24_a_server_without_tls_is_refused_by_who_requires_it() {
    block_on(async {
        let database = Database::empty().await;
        let store = connect(&format!("{}?sslmode=prefer", database.url())).await.expect("prefer does without");
        assert!(!is_encrypted(&database, &store).await);
        for mode in ["require", "verify-ca", "verify-full"] {
            let refused = connect(&format!("{}?sslmode={mode}", database.url())).await;
            refused.expect_err("the server has no TLS");
        }
    });
}
