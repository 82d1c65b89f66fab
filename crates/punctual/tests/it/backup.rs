//! Copies of a store under load, and stores made of them: `punctual backup` and `restore`, and `pg_dump` on PostgreSQL.

use crate::process::{Ear, Worker};
use crate::serve::{Server, punctual};
use crate::world::{World, on_both_stores};
use punctual_core::checks::Severity;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_testkit::postgres::{Database, Programs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Says what the program answered, and how it ended.
fn said(args: &[&str]) -> (Option<i32>, String) {
    let output = punctual(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn done(args: &[&str]) -> String {
    let (code, said) = said(args);
    assert_eq!(code, Some(0), "{args:?}: {said}");
    said
}

fn refused(args: &[&str], words: &str) {
    let (code, said) = said(args);
    assert!(code != Some(0) && said.contains(words), "{args:?} should say `{words}`: {said}");
}

fn address(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

/// A world made of a copy of another one, which is taken while that one is at work.
async fn copy_of(world: &World, folder: &Path, round: usize) -> World {
    if world.url.starts_with("sqlite:") {
        let (copy, file) = (folder.join("copy.db"), folder.join("restored.db"));
        let text = |path: &Path| path.display().to_string();
        let told = done(&["backup", "--database", &world.url, "-o", &text(&copy), "--replace"]);
        assert!(told.contains("nothing is wrong with it"), "{told}");
        done(&["restore", &text(&copy), "--database", &address(&file), "--replace"]);
        return World::on_file(file).await;
    }
    // As docs/backup.md says it, to the letter.
    let programs = Programs::find();
    let dump = folder.join("punctual.dump");
    let run = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(programs.path(program)).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let file = format!("--file={}", dump.display());
    let ours: &[&str] = if round == 1 { &["--schema=punctual", "--schema=punctual_internal"] } else { &[] };
    run("pg_dump", &[&["--format=custom", "--no-owner", "--no-privileges", &file], ours, &[&world.url]].concat());
    let database = Database::empty().await;
    let into = format!("--dbname={}", database.url());
    run("pg_restore", &["--single-transaction", "--no-owner", "--no-privileges", &into, &dump.display().to_string()]);
    World::on_database(database).await
}

on_both_stores! {
    async fn c01_a_backup_under_load_holds_all_that_was_acknowledged_before(world: &World) {
        world.schedule_every_second(3).await;
        let ear = Ear::new();
        let _workers = [Worker::start(world, &ear), Worker::start(world, &ear)];
        let acknowledged: Arc<Mutex<Vec<JobId>>> = Arc::default();
        let producers: Vec<_> = (0..3)
            .map(|_| {
                let (store, target, list) = (Arc::clone(&world.store), world.target(), Arc::clone(&acknowledged));
                tokio::spawn(async move {
                    loop {
                        let made = store.enqueue_jobs(vec![NewJob::new(target.clone())]).await.unwrap();
                        list.lock().unwrap().extend(made);
                        // As much as two workers can do, so that the copy can come to rest.
                        tokio::time::sleep(Duration::from_millis(40)).await;
                    }
                })
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        for round in 1..=3 {
            while acknowledged.lock().unwrap().len() < 150 * round {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let before = acknowledged.lock().unwrap().clone();
            let copy = copy_of(world, folder.path(), round).await;
            let held = copy.all_jobs().await;
            let missing: Vec<_> = before.iter().filter(|id| !held.contains_key(id)).collect();
            assert!(missing.is_empty(), "round {round}: {} of {} are missing", missing.len(), before.len());
            let findings = copy.store.run_checks(100).await.unwrap();
            let broken: Vec<_> = findings.iter().filter(|one| one.check.severity() == Severity::Broken).collect();
            assert!(broken.is_empty(), "round {round}: {broken:?}");
            if round == 3 {
                producers.iter().for_each(tokio::task::JoinHandle::abort);
                // And it goes on from there as from any crash: each slot that it holds is decided once.
                let _worker = Worker::start(&copy, &ear);
                copy.come_to_rest().await;
                let twice = "SELECT count(*) FROM (SELECT schedule_id, slot_at FROM {jobs} WHERE slot_at IS NOT NULL
                    AND retry_of IS NULL GROUP BY schedule_id, slot_at HAVING count(*) > 1) AS twice";
                assert_eq!(copy.number(twice).await, 0);
                assert_eq!(copy.store.run_checks(100).await.unwrap(), [], "doctor accepts it");
            }
        }
    }
}

/// A store with one schedule, one queued job and one token, in a folder as `serve` has it.
async fn small_store(data: &Path) -> PathBuf {
    let file = data.join("punctual.db");
    let store = punctual::open(&address(&file)).await.unwrap();
    let timing = TimingSpec::cron("0 2 * * *", "UTC");
    let definition = ScheduleDefinition::new(Name::new("nightly").unwrap(), timing, Target::command(["true"]));
    store.create_schedule(definition).await.unwrap();
    store.enqueue_jobs(vec![NewJob::new(Target::command(["true"]))]).await.unwrap();
    file
}

#[tokio::test]
async fn c01_a_copy_takes_no_name_that_is_taken_and_old_ones_are_removed_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let data = path("data");
    std::fs::create_dir(&data).unwrap();
    small_store(Path::new(&data)).await;
    let copy = path("copy.db");
    std::fs::write(path("copy.db.partial"), "what one that was killed left behind").unwrap();
    let told = done(&["backup", "--data", &data, "-o", &copy]);
    assert!(told.contains("1 schedules, 1 jobs waiting, 0 running, 0 runs"), "{told}");
    assert!(!Path::new(&path("copy.db.partial")).exists());
    for beside in ["copy.db-wal", "copy.db-shm", "copy.db-journal"] {
        assert!(!Path::new(&path(beside)).exists(), "a copy is one file");
    }
    refused(&["backup", "--data", &data, "-o", &copy], "exists already; choose another name, or replace it");
    done(&["backup", "--data", &data, "-o", &copy, "--replace"]);
    refused(&["backup", "--data", &data, "-o", &copy, "--replace", "--keep", "2"], "name the folder");
    let itself = format!("{data}/punctual.db");
    refused(&["backup", "--data", &data, "-o", &itself, "--replace"], "is a store itself; choose another name");

    let kept = path("kept");
    std::fs::create_dir(&kept).unwrap();
    for day in 1..=3 {
        std::fs::copy(&copy, format!("{kept}/punctual-2026010{day}T040000Z.db")).unwrap();
    }
    // As after a clock that was set back: what was just made is not the oldest.
    std::fs::copy(&copy, format!("{kept}/punctual-20990101T040000Z.db")).unwrap();
    std::fs::write(format!("{kept}/punctual-notes.db"), "not ours").unwrap();
    let elsewhere = path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let other = small_store(Path::new(&elsewhere)).await;
    done(&["backup", "--database", &address(&other), "-o", &format!("{kept}/punctual-20250101T040000Z.db")]);
    let told = done(&["backup", "--data", &data, "-o", &kept, "--keep", "2", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((told["removed"].as_array().unwrap().len(), &told["findings"]), (3, &serde_json::json!([])));
    let mut left: Vec<_> = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let made = Path::new(told["file"].as_str().unwrap()).file_name().unwrap();
    let expected = [
        "punctual-20250101T040000Z.db".as_ref(),
        made,
        "punctual-20990101T040000Z.db".as_ref(),
        "punctual-notes.db".as_ref(),
    ];
    assert_eq!(left, expected, "the copy of another store and what is none stay");

    refused(&["backup", "--data", &path("nothing"), "-o", &path("x.db")], "is not there");
    std::fs::write(path("text.db"), "this is no database, and long enough to be taken for one at first").unwrap();
    refused(&["backup", "--database", &format!("sqlite:{}", path("text.db")), "-o", &path("x.db")], "is no store");
    assert!(!Path::new(&path("x.db")).exists() && !Path::new(&path("x.db.partial")).exists());
    let url = "postgres://me:hunter2@db/punctual";
    refused(&["backup", "--database", url], "pg_dump --format=custom");
    refused(&["restore", &copy, "--database", url], "pg_restore");
    assert!(!said(&["backup", "--database", url]).1.contains("hunter2"));
}

#[tokio::test]
async fn c01_a_store_is_replaced_only_when_nobody_has_it_and_then_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let data = path("data");
    std::fs::create_dir(&data).unwrap();
    let file = small_store(Path::new(&data)).await;
    let copy = path("copy.db");
    done(&["backup", "--data", &data, "-o", &copy]);
    refused(&["restore", &copy, "--data", &data], "is there already; replace it");
    refused(&["restore", &file.display().to_string(), "--data", &data, "--replace"], "is the store itself");

    let server = Server::on(&["--data", &data]);
    refused(&["restore", &copy, "--data", &data, "--replace"], "another server runs on");
    refused(&["restore", &copy, "--database", &address(&file), "--replace"], "open; stop every server");
    // Killed, it leaves a log behind that must not become part of the store that is put there.
    drop(server);
    let log = format!("{}-wal", file.display());
    assert!(Path::new(&log).exists());

    let told = done(&["restore", &copy, "--data", &data, "--replace", "--paused"]);
    assert!(told.contains("paused: 1 schedules, 1 queues"), "{told}");
    let aside = told.lines().find_map(|line| line.trim().strip_prefix("the store that was there is ")).unwrap();
    let aside = PathBuf::from(aside.strip_suffix(" now").unwrap());
    assert!(punctual::open(&address(&aside)).await.unwrap().schedules(None, 10).await.unwrap().len() == 1);
    let store = punctual::open(&address(&file)).await.unwrap();
    let schedules = store.schedules(None, 10).await.unwrap();
    let pause = schedules[0].state.pause.as_ref().unwrap();
    assert_eq!((pause.by.as_deref(), pause.note.as_deref()), (Some("restore"), Some("restored from copy.db")));
    assert!(store.nodes(false, None, 10).await.unwrap().is_empty(), "the server came after the copy");
    assert_eq!(store.run_checks(10).await.unwrap(), []);
}

#[tokio::test]
async fn c01_a_restored_store_is_where_the_old_one_was_and_belongs_to_the_same() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for data in ["real", "linked"] {
        std::fs::create_dir(path(data)).unwrap();
    }
    let file = small_store(Path::new(&path("real"))).await;
    done(&["backup", "--database", &address(&file), "-o", &path("copy.db")]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    // Only root may give a file away; elsewhere everything has one owner anyway.
    let given = chown(&file, Some(65534), Some(65534)).is_ok();
    symlink(&file, path("linked/punctual.db")).unwrap();
    done(&["restore", &path("copy.db"), "--data", &path("linked"), "--replace"]);
    assert!(std::fs::symlink_metadata(path("linked/punctual.db")).unwrap().is_symlink());
    let restored = std::fs::metadata(&file).unwrap();
    assert_eq!(restored.mode() & 0o777, 0o640);
    assert_eq!(restored.uid() == 65534, given);
    let beside: Vec<_> = std::fs::read_dir(path("real")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 2, "the new one, and the old one set aside: {beside:?}");
}

#[tokio::test]
async fn c01_a_copy_of_a_store_that_has_moved_is_used_only_when_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = small_store(folder.path()).await;
    let (moved, copy, restored) = (format!("sqlite:{}", path("other.db")), path("copy.db"), path("restored.db"));
    done(&["move", "--from", &address(&file), "--to", &moved]);
    let told = done(&["backup", "--database", &address(&file), "-o", &copy]);
    assert!(told.contains("nothing could be done in the store that was copied"), "{told}");
    let into = format!("sqlite:{restored}");
    refused(&["restore", &copy, "--database", &into, "--paused"], "thaw the copy if that one is lost");
    assert!(!Path::new(&restored).exists());
    done(&["restore", &copy, "--database", &into, "--paused", "--thaw"]);
    let store = punctual::open(&into).await.unwrap();
    store.enqueue_jobs(vec![NewJob::new(Target::command(["true"]))]).await.unwrap();
    assert!(!store.schedules(None, 10).await.unwrap()[0].state.enabled);
}

#[tokio::test]
async fn c17_a_broken_copy_is_not_put_in_place_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    small_store(folder.path()).await;
    let (source, copy, target) = (format!("sqlite:{}", path("punctual.db")), path("copy.db"), path("restored.db"));
    done(&["backup", "--database", &source, "-o", &copy]);
    let into = format!("sqlite:{target}");
    let restore = ["restore", &copy, "--database", &into];

    let connection = rusqlite::Connection::open(&copy).unwrap();
    connection.execute("DELETE FROM punctual_queue", []).unwrap();
    refused(&restore, "is broken; use an earlier one, or force this one");
    assert!(!Path::new(&target).exists());
    let told = done(&[&restore[..], &["--force"]].concat());
    assert!(told.contains("neither waiting, nor queued, nor running, nor ended"), "{told}");
    let (code, told) = said(&["backup", "--database", &format!("sqlite:{copy}"), "-o", &path("again.db")]);
    assert!(code == Some(1) && told.contains("neither waiting") && Path::new(&path("again.db")).exists(), "{told}");

    // What a newer program wrote is refused; what an older one wrote is restored, and brought up to date when it is opened.
    let newer = "INSERT INTO punctual_migrations VALUES (9999, 'from_the_future', 1, 0)";
    connection.execute(newer, []).unwrap();
    refused(&["restore", &copy, "--database", &address(&folder.path().join("new.db"))], "use a newer punctual");
    connection.execute("DELETE FROM punctual_migrations WHERE number > 15", []).unwrap();
    drop(connection);
    let told = done(&["restore", &copy, "--database", &address(&folder.path().join("old.db"))]);
    assert!(told.contains("only the file itself was looked through"), "{told}");
}
