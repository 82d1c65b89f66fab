//! A fleet of equal workers on one PostgreSQL database: each job is run by whoever is free, once.
//!
//! ```sh
//! PUNCTUAL_DATABASE=postgres://localhost/app cargo run --example worker_fleet            # 4 workers, 200 jobs
//! PUNCTUAL_DATABASE=postgres://localhost/app WORKERS=8 JOBS=1000 cargo run --example worker_fleet
//! ```
//!
//! Here the workers share a process so that the example can count; in earnest each is a process, on any machine.

use punctual::{Context, Punctual, TaskError};
use std::collections::BTreeMap;
use tokio::sync::watch;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database =
        std::env::var("PUNCTUAL_DATABASE").map_err(|_| "say which database: PUNCTUAL_DATABASE=postgres://…")?;
    let (workers, jobs) = (number("WORKERS", 4)?, number("JOBS", 200)?);

    let (stop, stopping) = watch::channel(());
    let mut fleet = Vec::new();
    for n in 1..=workers {
        let name = format!("worker-{n}");
        let worker = Punctual::builder(&database).name(&name).concurrency(4).pool_size(2).open().await?;
        worker.task("count", move |_: Context, number: u64| {
            let name = name.clone();
            async move { Ok::<_, TaskError>((name, number * number)) }
        });
        let mut stopping = stopping.clone();
        fleet.push(tokio::spawn(async move { worker.run_until(async move { drop(stopping.changed().await) }).await }));
    }

    // Whoever enqueues need not be a worker: this handle runs nothing itself.
    let client = Punctual::builder(&database).name("client").pool_size(2).open().await?;
    let handles = client.enqueue_many("count", 0..jobs).send().await?;
    let (mut shares, mut sum) = (BTreeMap::<String, usize>::new(), 0);
    for handle in handles {
        let (name, square): (String, u64) = handle.wait().await?;
        *shares.entry(name).or_default() += 1;
        sum += square;
    }
    for (name, share) in &shares {
        println!("{name} ran {share}");
    }
    println!("{} jobs, sum of squares {sum}", shares.values().sum::<usize>());

    stop.send_replace(());
    for worker in fleet {
        worker.await??;
    }
    println!("all workers have left");
    Ok(())
}

fn number(variable: &str, usual: u64) -> Result<u64, String> {
    match std::env::var(variable) {
        Ok(text) => text.parse().map_err(|_| format!("{variable} must be a whole number")),
        Err(_) => Ok(usual),
    }
}
