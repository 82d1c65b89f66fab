//! A web server that hands slow work to jobs: the request is answered at once, and the work survives a restart.
//!
//! ```sh
//! cargo run --example embed_axum                    # listens on 127.0.0.1:8080, keeps its jobs in embed_axum.db
//! curl -X POST 127.0.0.1:8080/welcome/ada           # → {"job":"…"}
//! curl 127.0.0.1:8080/jobs/…                        # → {"state":"completed"}
//! ```

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use punctual::{Context, JobId, Punctual, TaskError};
use std::collections::BTreeMap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

type Answer = Result<Json<BTreeMap<&'static str, String>>, (StatusCode, String)>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = std::env::var("PUNCTUAL_DATABASE").unwrap_or_else(|_| "sqlite:embed_axum.db".to_owned());
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let punctual = Punctual::builder(&database).name("embed_axum").open().await?;
    punctual.task("welcome", |_: Context, user: String| async move {
        // This is where the mail would be sent.
        println!("welcome, {user}");
        Ok::<_, TaskError>(user.len())
    });

    let routes = Router::new()
        .route("/welcome/{user}", post(welcome))
        .route("/jobs/{id}", get(job))
        .with_state(punctual.clone());
    let listener = tokio::net::TcpListener::bind(&listen).await?;
    // Heard from here on, so that not even a signal right behind the next line is missed.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    println!("listening on http://{}", listener.local_addr()?);

    // One wish to stop ends both: the server takes no more requests, and the node lets its jobs finish.
    let (stop, stopping) = watch::channel(());
    let stopped = |mut stopping: watch::Receiver<()>| async move { drop(stopping.changed().await) };
    let server = axum::serve(listener, routes).with_graceful_shutdown(stopped(stopping.clone()));
    let server = tokio::spawn(server.into_future());
    let node = tokio::spawn(async move { punctual.run_until(stopped(stopping)).await });
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.send_replace(());
    server.await??;
    node.await??;
    println!("stopped");
    Ok(())
}

/// Two requests for the same user while the first waits are one job.
async fn welcome(State(punctual): State<Punctual>, Path(user): Path<String>) -> Answer {
    let job = punctual.enqueue("welcome", &user).job_key(format!("welcome:{user}")).send().await.map_err(internal)?;
    Ok(Json(BTreeMap::from([("job", job.id().to_string())])))
}

async fn job(State(punctual): State<Punctual>, Path(id): Path<JobId>) -> Answer {
    match punctual.job(id).await {
        Ok(view) => Ok(Json(BTreeMap::from([("state", view.state().to_string())]))),
        Err(error @ punctual::Error::NoSuchJob(_)) => Err((StatusCode::NOT_FOUND, error.to_string())),
        Err(error) => Err(internal(error)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn internal(error: punctual::Error) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}
