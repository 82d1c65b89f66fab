//! Several processes on one SQLite file, one of which is stopped in the middle of a read.

use crate::process::{Ear, Worker, signal_process, stop_process};
use crate::world::World;
use punctual_core::job::NewJob;
use punctual_core::json::Json;
use punctual_core::target::Target;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Names the file that this process is to read, when a test has started it for that.
const READER: &str = "PUNCTUAL_TEST_READER";

/// What the log of the file may come to: it is emptied above 16 MB, and one write may be large.
const LOG_MAX_BYTES: u64 = 32 << 20;

/// The same where readers come and go without a pause: far less than what is written.
const LOG_MAX_BYTES_READ: u64 = 64 << 20;

/// Another process that reads the file.
struct Reader(Child);

impl Reader {
    /// Starts the calling test once more, as a reader, and waits until it reads.
    fn start(test: &str, file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(READER, file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("reading")), "the reader ended");
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// One snapshot after the other on several connections, so that there is never a moment without one; until it is killed.
fn read_for_ever(file: &std::ffi::OsStr, connections: u64) -> ! {
    let threads: Vec<_> = (0..connections)
        .map(|n| {
            let connection = rusqlite::Connection::open(file).unwrap();
            std::thread::spawn(move || {
                for round in 0.. {
                    connection.execute_batch("BEGIN").unwrap();
                    let jobs = "SELECT count(*) FROM punctual_jobs";
                    let _count: i64 = connection.query_row(jobs, [], |row| row.get(0)).unwrap();
                    if n == 0 && round == 0 {
                        println!("reading");
                    }
                    std::thread::sleep(Duration::from_millis(20 + 7 * n));
                    connection.execute_batch("COMMIT").unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        let _never = thread.join();
    }
    std::process::exit(1)
}

fn log_bytes(world: &World) -> u64 {
    let file = world.file();
    let log = file.with_file_name(format!("{}-wal", file.file_name().unwrap().to_string_lossy()));
    std::fs::metadata(log).map_or(0, |log| log.len())
}

/// Writes some megabytes, as jobs that nobody runs; none of it may fail.
async fn write_megabytes(world: &World, megabytes: usize) {
    let input = Json::from_value("input", &"x".repeat(60 * 1024)).unwrap();
    for _ in 0..megabytes {
        let job = NewJob { input: input.clone(), queue: "large".to_owned(), ..NewJob::new(Target::task("nobody")) };
        world.store.enqueue_jobs(vec![job; 16]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_a_stopped_reader_locks_nobody_out_and_what_it_cost_is_given_back() {
    if let Some(file) = std::env::var_os(READER) {
        read_for_ever(&file, 1);
    }
    let world = World::on_sqlite().await;
    world.schedule_every_second(3).await;
    let ear = Ear::new();
    let worker = Worker::start(&world, &ear);
    let test = "sharing::c01_a_stopped_reader_locks_nobody_out_and_what_it_cost_is_given_back";
    let reader = Reader::start(test, world.file());
    stop_inside_a_read(&world, &reader).await;
    // A snapshot that is open keeps the log from being used anew: it grows by what is written, and by nothing else.
    let producer = world.produce();
    write_megabytes(&world, 40).await;
    let runs = world.number("SELECT count(*) FROM {runs}").await;
    world.until("SELECT count(*) FROM {runs}", |now| now > runs + 20).await;
    let pinned = log_bytes(&world);
    assert!(pinned > LOG_MAX_BYTES, "the reader was not stopped inside a read: {pinned} bytes");
    drop(reader);
    // The producer and the worker go on writing, and one of them empties the log.
    while log_bytes(&world) > LOG_MAX_BYTES {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!("the log had {} MB, and has {} MB", pinned >> 20, log_bytes(&world) >> 20);
    let acknowledged = producer.stop().await;
    for schedule in world.store.schedules(None, 10).await.unwrap() {
        world.store.pause_schedule(schedule.id, None, None).await.unwrap();
    }
    let large = world.number("SELECT count(*) FROM {jobs} WHERE length(input) > 60000").await;
    world.until_open(large).await;
    let locked = |line: &String| line.contains("locked") || line.contains("holds the database");
    assert!(!worker.said().iter().any(locked), "{:?}", worker.said());
    let states = world.all_jobs().await;
    assert!(acknowledged.iter().all(|id| states[id].is_terminal()));
}

/// Stops the reader while it has a snapshot: not all of the log can be moved into the file then.
async fn stop_inside_a_read(world: &World, reader: &Reader) {
    loop {
        stop_process(reader.pid());
        write_megabytes(world, 1).await;
        let connection = rusqlite::Connection::open(world.file()).unwrap();
        let (logged, moved): (i64, i64) =
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
        if moved < logged {
            return;
        }
        signal_process(reader.pid(), "-CONT");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_readers_that_never_pause_do_not_let_the_log_grow_without_end() {
    if let Some(file) = std::env::var_os(READER) {
        read_for_ever(&file, 3);
    }
    let world = World::on_sqlite().await;
    let test = "sharing::c01_readers_that_never_pause_do_not_let_the_log_grow_without_end";
    let _reader = Reader::start(test, world.file());
    let mut most = 0;
    for _ in 0..100 {
        write_megabytes(&world, 1).await;
        most = most.max(log_bytes(&world));
    }
    eprintln!("at most {} MB", most >> 20);
    assert!(most <= LOG_MAX_BYTES_READ, "{most} bytes");
}
