//! A database for people who know SQL only: a login of every role, and workers that call their functions.

use crate::process::{Ear, Setup, Worker};
use crate::world::World;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::clients::{self, Answer};
use std::ops::Deref;
use std::time::Duration;

/// Who there is, and what each may be. `works` is what workers log in as; none is a superuser.
const PEOPLE: [(&str, &str); 5] = [
    ("ada", "punctual_client"),
    ("bert", "punctual_client"),
    ("grace", "punctual_admin"),
    ("rita", "punctual_reader"),
    ("works", "punctual_worker"),
];

/// The database and its people. Logins belong to the whole server, so that their names begin with the database's.
pub struct SqlWorld(World);

impl Deref for SqlWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl SqlWorld {
    /// With the logins, and a schema `jobs` in which ada makes her functions.
    pub async fn new() -> Self {
        let world = Self::with_worker_alone().await;
        for (who, role) in PEOPLE.iter().filter(|(who, _)| *who != "works") {
            world.make_login(who, role).await;
        }
        let schema = format!(
            "CREATE SCHEMA jobs AUTHORIZATION {}; GRANT USAGE ON SCHEMA jobs TO punctual_worker",
            world.name("ada")
        );
        world.as_superuser(&schema).await;
        world
    }

    /// With the roles, and nobody but a login for workers.
    pub async fn with_worker_alone() -> Self {
        let world = Self(World::on_postgres().await);
        let store = PostgresStore::connect(&world.url, PostgresOptions::default()).await.unwrap();
        store.apply_roles().await.unwrap();
        world.make_login("works", "punctual_worker").await;
        world
    }

    async fn make_login(&self, who: &str, role: &str) {
        let make = format!("CREATE ROLE {} LOGIN PASSWORD 'known' IN ROLE {role}", self.name(who));
        self.as_superuser(&make).await;
    }

    pub async fn as_superuser(&self, sql: &str) {
        self.database().connect().await.batch_execute(sql).await.unwrap();
    }

    /// The login of somebody.
    pub fn name(&self, who: &str) -> String {
        format!("{}_{who}", self.database().name())
    }

    /// The database, for somebody.
    pub fn url_of(&self, who: &str) -> String {
        format!("postgres://{}:known@{}/{}", self.name(who), self.database().server(), self.database().name())
    }

    pub fn psql(&self, who: &str, script: &str) -> Answer {
        clients::psql(&self.url_of(who), script)
    }

    /// What somebody gets who may.
    pub fn done(&self, who: &str, script: &str) -> String {
        self.psql(who, script).unwrap_or_else(|error| panic!("{who} is refused `{script}`: {error}"))
    }

    /// What somebody is told who may not.
    pub fn refused(&self, who: &str, script: &str) -> String {
        match self.psql(who, script) {
            Err(error) => error,
            Ok(answer) => panic!("{who} may do `{script}`: {answer}"),
        }
    }

    /// Asks again and again until the answer is as wanted.
    pub async fn until_shown(&self, who: &str, query: &str, wanted: &str) {
        self.until_answer(who, query, |answer| answer == wanted).await;
    }

    pub async fn until_answer(&self, who: &str, query: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        loop {
            let answer = self.done(who, query);
            if wanted(&answer) {
                return answer;
            }
            if answer != last {
                eprintln!("{who}: `{query}` is {answer:?} so far");
                last = answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A worker that may call what is in the schema `jobs`, as the role it logs in with.
    pub fn start_worker(&self, ear: &Ear) -> Worker {
        let url = self.url_of("works");
        let env = [
            ("PUNCTUAL_SQL_CONNECTIONS", "main=env:JOBS_URL"),
            ("PUNCTUAL_SQL_ALLOW", "main=jobs.*"),
            ("JOBS_URL", &url),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Worker::start_as(&url, &Setup { log: "warn", env, ..Setup::default() }, ear)
    }
}

impl Drop for SqlWorld {
    fn drop(&mut self) {
        let url = self.database().url();
        let names = PEOPLE.map(|(who, _)| self.name(who));
        // On a thread of its own, because this is the end of an async test. Whatever is left is the server's own end.
        let dropping = std::thread::spawn(move || {
            for name in names {
                let _best_effort = clients::psql(
                    &url,
                    &format!("SET lock_timeout = '5s'; DROP OWNED BY {name} CASCADE; DROP ROLE {name};"),
                );
            }
        });
        let _ended = dropping.join();
    }
}
