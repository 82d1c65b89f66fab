//! What a command leaves with its run: its log while it goes on, its files, and none of its secrets.

use super::*;
use punctual_core::run::Outcome;
use punctual_core::secret::{SecretRef, Value};

#[tokio::test]
async fn c13_a_log_can_be_followed_while_the_command_runs() {
    let commands = Commands::new();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let text = format!("echo one; while [ ! -e {} ]; do sleep 0.01; done; echo two", gate.display());
    let id = commands.enqueue(job(script(&text))).await;
    commands.until_said(id, "one").await;
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["one"]);
    fs::write(&gate, "").unwrap();
    commands.end(id).await;
    let log = commands.log(id).await;
    assert_eq!(
        log.iter().map(|line| (line.sequence, line.text.as_str())).collect::<Vec<_>>(),
        [(1, "one"), (2, "two")]
    );
    let view = commands.world.store.job(id).await.unwrap().unwrap();
    let run = view.run().unwrap();
    assert!(log[0].at >= run.started_at.unwrap() && log[0].at < log[1].at && log[1].at <= run.finished_at);
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_files_of_the_declared_folder_are_kept() {
    let commands = Commands::new();
    let text = "mkdir -p out/sub; printf 'a\\0b' > out/sub/bin; printf report > \"$PUNCTUAL_ARTIFACTS/a.txt\"; \
                ln -s /etc/passwd out/link; mkfifo out/pipe; head -c 20000000 /dev/zero > out/huge; exit 3";
    let keeping = Command { artifacts: Some("out".to_owned()), ..script(text) };
    let (id, run) = commands.run(job(keeping)).await;
    assert_eq!(run.exit_code, Some(3), "what a failed run leaves is of use, too");
    let store = &commands.world.store;
    let kept = store.artifacts(id).await.unwrap();
    assert_eq!(
        kept.iter().map(|it| (it.name.as_str(), it.size_bytes)).collect::<Vec<_>>(),
        [("a.txt", 6), ("sub/bin", 3)]
    );
    assert_eq!(store.artifact_contents(id, 1).await.unwrap().unwrap(), b"report");
    assert_eq!(store.artifact_contents(id, 2).await.unwrap().unwrap(), b"a\0b");
    let told = commands.said(id, LogStream::System).await.join("\n");
    assert!(told.contains("`huge` was not kept") && told.contains("16777216"), "{told}");
    commands.leave_nothing().await;
}

#[tokio::test]
async fn b12_a_secret_of_a_command_is_nowhere_to_be_seen() {
    let commands = Commands::new();
    let canary = format!("canary-{}", uuid::Uuid::new_v4());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &canary).unwrap();
    let secret = Value::Secret(SecretRef::new(format!("file:{}", file.path().display())));
    let text = "echo \"got $TOKEN\"; echo \"$TOKEN\" >&2; echo \"$TOKEN\" > \"out/$TOKEN\"; sleep 0.2; exit 1";
    let env = [("TOKEN".to_owned(), secret)].into();
    let leaky = job(Command { env, artifacts: Some("out".to_owned()), ..script(text) });
    let id = commands.enqueue(leaky).await;
    commands.until_said(id, "got [secret]").await;
    assert_eq!(with_argument(&canary), Vec::<u32>::new(), "it is no argument of any process");
    let run = commands.end(id).await;
    assert_eq!(run.outcome, Outcome::Failed);
    let kept = commands.world.store.artifacts(id).await.unwrap();
    assert_eq!(kept[0].name, "[secret]");
    let path = commands.world.store.path().to_owned();
    for suffix in ["", "-wal"] {
        let file = fs::read(format!("{}{suffix}", path.display())).unwrap();
        assert!(!contains(&file, canary.as_bytes()), "it is in the store's file {suffix}");
    }
    commands.leave_nothing().await;
}
