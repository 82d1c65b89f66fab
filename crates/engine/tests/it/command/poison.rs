//! Commands that do their worst: each ends as a recorded run, nothing of it is left, and nobody else is held up.

use super::*;
use crate::faulty::FaultyStore;
use crate::node::quick;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_engine::node::NodeEvent;
use punctual_engine::scribe::LOG_MAX_BYTES;

/// Runs a command beside others that must come to their end while it goes on.
async fn beside_neighbours(commands: &Commands, worst: NewJob) -> (JobId, Run) {
    let id = commands.enqueue(worst).await;
    for _ in 0..5 {
        let (_, neighbour) = commands.run(job(argv(["true"]))).await;
        assert_eq!(neighbour.outcome, Outcome::Completed);
    }
    (id, commands.end(id).await)
}

#[tokio::test]
async fn c13_who_ignores_sigterm_is_killed_after_the_grace() {
    let commands = Commands::new();
    let time = unlike_any_other();
    let stubborn = format!("trap '' TERM; sh -c 'trap \"\" TERM; sleep {time}' & while :; do sleep {time}; done");
    let (id, run) = beside_neighbours(&commands, after_ms(job(script(&stubborn)), 300)).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::Timeout)));
    assert_eq!(with_argument(&time), Vec::<u32>::new());
    let told = commands.said(id, LogStream::System).await.join("\n");
    assert!(told.contains("SIGTERM") && told.contains("SIGKILL"), "{told}");
    commands.leave_nothing().await;
}

/// Sessions of their own, parents that are gone, an empty environment: nothing by which they could be found but that
/// the guard is their reaper.
#[tokio::test]
async fn c13_who_forks_twice_and_leaves_the_session_is_found() {
    let commands = Commands::new();
    let time = unlike_any_other();
    let daemon = format!(
        "for i in 1 2 3; do (env -i setsid sh -c 'env -i setsid sleep {time} & sleep {time} &' &) ; done; \
         while [ $(pgrep -c -x -f 'sleep {time}') -lt 6 ]; do :; done; echo gone"
    );
    let (id, run) = beside_neighbours(&commands, job(script(&daemon))).await;
    assert_eq!((run.outcome, run.exit_code), (Outcome::Completed, Some(0)));
    assert_eq!(with_argument(&time), Vec::<u32>::new());
    assert!(used(&run, "processes_left_behind") >= 6);
    assert!(commands.said(id, LogStream::System).await[0].contains("were killed"));
    // The same when it is stopped in the middle of it.
    let time = unlike_any_other();
    let daemon = format!("(env -i setsid sh -c 'trap \"\" TERM; setsid sleep {time} & sleep {time}' &); sleep {time}");
    let (_, run) = beside_neighbours(&commands, after_ms(job(script(&daemon)), 500)).await;
    assert_eq!(run.error_code, Some(ErrorCode::Timeout));
    assert_eq!(with_argument(&time), Vec::<u32>::new());
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_a_gigabyte_of_output_is_cut_and_said_to_be() {
    let commands = Commands::new();
    let (id, run) = beside_neighbours(&commands, job(argv(["head", "-c", "1073741824", "/dev/zero"]))).await;
    assert_eq!(run.outcome, Outcome::Completed);
    let log = commands.log(id).await;
    let kept: usize =
        log.iter().filter(|line| line.stream == LogStream::Stdout).map(|line| line.text.chars().count()).sum();
    assert!((LOG_MAX_BYTES / 2..=LOG_MAX_BYTES).contains(&kept), "{kept} bytes");
    let told = commands.said(id, LogStream::System).await.join("\n");
    assert!(told.contains("the log is full") && told.contains("not kept"), "{told}");
    let (id, run) = beside_neighbours(&commands, job(script("yes | head -c 20000000"))).await;
    assert_eq!(run.outcome, Outcome::Completed);
    let lines = commands.log(id).await;
    assert!(lines.len() < 200_000, "{} lines", lines.len());
    let cut: u64 = lines.last().unwrap().text.split(' ').next().unwrap().parse().unwrap();
    let kept = lines.iter().filter(|line| line.stream == LogStream::Stdout).count() as u64;
    assert_eq!(kept + cut, 10_000_000, "every line is kept or counted");
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_what_is_no_text_is_replaced() {
    let commands = Commands::new();
    let (id, run) = commands.run(job(script(r"printf 'a\377\376b\000c\n\303\n\303'; printf '\360\237\224' >&2"))).await;
    assert_eq!(run.outcome, Outcome::Completed);
    let said = commands.said(id, LogStream::Stdout).await;
    assert_eq!(said, ["a\u{fffd}\u{fffd}b\u{fffd}c", "\u{fffd}", "\u{fffd}"]);
    assert_eq!(commands.said(id, LogStream::Stderr).await, ["\u{fffd}"]);
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_who_closes_its_output_and_goes_on_is_waited_for() {
    let commands = Commands::new();
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let text =
        format!("echo before; exec <&- >&- 2>&-; for i in 1 2 3 4 5; do true; done; touch {}; exit 7", made.display());
    let (id, run) = beside_neighbours(&commands, job(script(&text))).await;
    assert_eq!((run.error_code, run.exit_code), (Some(ErrorCode::TargetError), Some(7)));
    assert!(made.exists());
    assert_eq!(commands.said(id, LogStream::Stdout).await, ["before"]);
    commands.leave_nothing().await;
}

#[tokio::test]
async fn c13_a_node_that_is_fenced_leaves_no_command_behind() {
    let world = World::new();
    let (executors, scratch) = executors();
    let faulty = FaultyStore::new(Arc::clone(&world.store));
    let mut node = RunningNode::start(Arc::clone(&faulty) as Arc<dyn Store>, executors, quick());
    assert_eq!(node.event().await, NodeEvent::Ready);
    let time = unlike_any_other();
    let started = scratch.path().join("started");
    let text = format!("trap '' TERM; setsid sleep {time} & touch {}; sleep {time}", started.display());
    world.store.enqueue_jobs(vec![job(script(&text))]).await.unwrap();
    while !started.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    fs::remove_file(started).unwrap();
    faulty.cut_off(true);
    assert_eq!(node.event().await, NodeEvent::Fenced);
    // Nobody waits for them then; they are ended by their guard, which also removes their folder.
    while !with_argument(&time).is_empty() || fs::read_dir(scratch.path()).unwrap().next().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    faulty.cut_off(false);
    node.leave().await;
    while !children().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn c13_a_thousand_commands_leave_no_descriptor_and_no_ended_child() {
    let commands = Commands::new();
    commands.run(job(argv(["true"]))).await;
    let before = open_files();
    let jobs = commands.world.store.enqueue_jobs(vec![job(argv(["true"])); 1000]).await.unwrap();
    for id in jobs {
        assert_eq!(commands.end(id).await.outcome, Outcome::Completed);
    }
    assert_eq!(children(), Vec::<String>::new());
    assert_eq!(open_files(), before);
    commands.leave_nothing().await;
}

/// Many are started at once; none may hold open what belongs to another, or it would outlive it.
#[tokio::test]
async fn c13_commands_that_run_at_once_share_nothing() {
    let commands = Commands::new();
    let listing =
        job(script("ls /proc/self/fd | wc -l; ls -l /proc/self/fd | grep -c 'punctual\\|socket\\|\\.db' || true"));
    let jobs = commands.world.store.enqueue_jobs(vec![listing; 40]).await.unwrap();
    for id in jobs {
        commands.end(id).await;
        let said = commands.said(id, LogStream::Stdout).await;
        // Its own three, and the folder that is being listed. The nameless file of its input is the one that counts.
        assert_eq!((said[0].trim(), said[1].trim()), ("4", "1"), "{said:?}");
    }
    commands.leave_nothing().await;
}
