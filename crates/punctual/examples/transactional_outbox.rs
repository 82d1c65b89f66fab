//! The transactional outbox without an outbox: a row and the job about it, in one transaction of the program's own.
//!
//! ```sh
//! cargo run --example transactional_outbox                                                  # SQLite
//! PUNCTUAL_DATABASE=postgres://localhost/app cargo run --example transactional_outbox       # PostgreSQL
//! ```

use punctual::{Context, JobHandle, Punctual, TaskError};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Fallible<()> {
    let database = std::env::var("PUNCTUAL_DATABASE").unwrap_or_else(|_| "sqlite:transactional_outbox.db".to_owned());
    let punctual = Punctual::open(&database).await?;
    punctual.task("ship", |_: Context, order: i64| async move { Ok::<_, TaskError>(format!("order {order} shipped")) });

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let node = punctual.clone();
    let node = tokio::spawn(async move { node.run_until(async { drop(stopped.await) }).await });

    let shipped = match database.strip_prefix("sqlite:") {
        Some(path) => on_sqlite(&punctual, path)?,
        None => on_postgres(&punctual, &database).await?,
    };
    println!("{}", shipped.wait::<String>().await?);
    let _gone = stop.send(());
    node.await??;
    Ok(())
}

/// `rusqlite` blocks, and so does `send_in` with it.
fn on_sqlite(punctual: &Punctual, path: &str) -> Fallible<JobHandle> {
    let mut connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")?;

    let mut tx = connection.transaction()?;
    tx.execute("INSERT INTO orders (item) VALUES ('paid with a stolen card')", [])?;
    let order = tx.last_insert_rowid();
    let job = punctual.enqueue("ship", &order).send_in(&mut tx)?;
    tx.rollback()?;
    println!("rolled back: the job {} was never there", job.id());

    let mut tx = connection.transaction()?;
    tx.execute("INSERT INTO orders (item) VALUES ('a clock')", [])?;
    let order = tx.last_insert_rowid();
    let job = punctual.enqueue("ship", &order).send_in(&mut tx)?;
    tx.commit()?;
    // The workers of this process hear of it now; without this, a moment later.
    punctual.wake();
    println!("committed: order {order} and its job {}", job.id());
    Ok(job)
}

/// The commit itself wakes a worker, on whichever machine.
async fn on_postgres(punctual: &Punctual, url: &str) -> Fallible<JobHandle> {
    let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let make =
        "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)";
    client.batch_execute(make).await?;
    let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id";

    let mut tx = client.transaction().await?;
    let order: i64 = tx.query_one(insert, &[&"paid with a stolen card"]).await?.get(0);
    let job = punctual.enqueue("ship", &order).send_in(&mut tx).await?;
    tx.rollback().await?;
    println!("rolled back: the job {} was never there", job.id());

    let mut tx = client.transaction().await?;
    let order: i64 = tx.query_one(insert, &[&"a clock"]).await?.get(0);
    let job = punctual.enqueue("ship", &order).send_in(&mut tx).await?;
    tx.commit().await?;
    println!("committed: order {order} and its job {}", job.id());
    Ok(job)
}
