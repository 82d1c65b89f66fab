//! `punctual cron next` and `punctual cron explain`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn punctual(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Answers of `cron next --jsonl` to `input`.
fn answers(input: &[u8]) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "next", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // Written from the side: the pipe may fill before the first answer is read.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn b05_next_shows_the_fire_in_the_zone_in_utc_and_how_far_away() {
    let output = punctual(&[
        "cron",
        "next",
        "0 8 * * 1-5",
        "--tz",
        "europe/berlin",
        "--after",
        "2026-10-23T16:00Z",
        "--count",
        "2",
    ]);
    assert_eq!(
        stdout(&output),
        "Mon 2026-10-26 08:00:00 +01:00   2026-10-26T07:00:00Z   in 2 d 15 h\n\
         Tue 2026-10-27 08:00:00 +01:00   2026-10-27T07:00:00Z   in 3 d 15 h\n"
    );
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).is_empty());
}

#[test]
fn b05_next_starts_from_now_and_reads_times_in_the_zone() {
    let output = punctual(&["cron", "next", "@hourly", "--count", "1"]);
    assert_eq!(stdout(&output).lines().count(), 1);
    // 02:00 in Berlin is midnight in UTC in summer.
    let output = punctual(&[
        "cron",
        "next",
        "* * * * *",
        "--tz",
        "Europe/Berlin",
        "--after",
        "2026-07-01T02:00",
        "--count",
        "1",
        "--json",
    ]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer, json!({"expr": "* * * * *", "tz": "Europe/Berlin", "fires": ["2026-07-01T00:01:00Z"]}));
}

#[test]
fn b05_next_obeys_the_choices_at_a_change_of_clock() {
    let fires = |gap: &str, overlap: &str, expr: &str, after: &str| {
        let output = punctual(&[
            "cron",
            "next",
            expr,
            "--tz",
            "America/New_York",
            "--after",
            after,
            "--count",
            "2",
            "--json",
            "--dst-gap",
            gap,
            "--dst-overlap",
            overlap,
        ]);
        let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
        answer["fires"].clone()
    };
    let (gap, overlap) = ("2025-03-09T00:00:00Z", "2025-11-02T00:00:00Z");
    assert_eq!(fires("next", "first", "15,45 2 * * *", gap), json!(["2025-03-09T07:00:00Z", "2025-03-10T06:15:00Z"]));
    assert_eq!(fires("skip", "first", "15,45 2 * * *", gap), json!(["2025-03-10T06:15:00Z", "2025-03-10T06:45:00Z"]));
    assert_eq!(fires("next", "both", "30 1 * * *", overlap), json!(["2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"]));
}

#[test]
fn d05_every_and_spread_work_on_the_command_line() {
    let after = ["--after", "2025-03-09T06:00:00Z", "--count", "2"];
    let every = punctual(&[&["cron", "next", "@every 1h30m"][..], &after].concat());
    assert_eq!(
        stdout(&every),
        "Sun 2025-03-09 07:30:00 +00:00   2025-03-09T07:30:00Z   in 1 h 30 min\n\
         Sun 2025-03-09 09:00:00 +00:00   2025-03-09T09:00:00Z   in 3 h\n"
    );
    let spread = ["cron", "next", "H H * * *"];
    assert_eq!(punctual(&spread).status.code(), Some(2));
    let seeded = punctual(&[&spread[..], &["--seed", "backup"], &after].concat());
    assert!(stdout(&seeded).contains("08:07:00"), "{}", stdout(&seeded));
    let explained = punctual(&["cron", "explain", "@every 90s", "--after", "2025-03-09T06:00:00Z"]);
    assert!(stdout(&explained).starts_with("Every 1m30s of elapsed time, from slot to slot\n"));
}

#[test]
fn e02_bad_input_is_a_usage_error_on_standard_error() {
    let output = punctual(&["cron", "next", "0 25 * * *"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert_eq!(stderr(&output), "error: hour field, column 3: 25 is out of range; use 0 to 23\n  0 25 * * *\n    ^\n");
    for (args, message) in [
        (&["cron", "next", "* * * * *", "--tz", "Europe/Belrin"][..], "did you mean Europe/Berlin?"),
        (&["cron", "next", "* * * * *", "--after", "soon"], "\"soon\" is not a time"),
        (&["cron", "next", "* * * * *", "--count", "0"], "0 is not in 1..=10000"),
        (&["cron", "next", "* * * * *", "--dst-gap", "never"], "use next or skip"),
        (&["cron", "next", "* * * * *", "--jsonl"], "cannot be used with"),
        (&["cron", "next"], "required arguments were not provided"),
        (&["cron", "explain", "@reboot"], "@reboot is not a time"),
        (&["cron", "explain", "\u{1b}[2J * * * *"], "unexpected '\\u{1b}'"),
    ] {
        let output = punctual(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn b05_no_further_fire_is_a_failure() {
    let output =
        punctual(&["cron", "next", "*/5 2 8-14 3 */7", "--tz", "America/New_York", "--after", "2025-01-01T00:00Z"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "error: no further fire within 41 years\n");
}

#[test]
fn b05_explain_tells_meaning_fires_changes_and_warnings() {
    let output =
        punctual(&["cron", "explain", "30 2 13 * 5", "--tz", "Europe/Berlin", "--after", "2026-03-01T00:00:00Z"]);
    assert_eq!(
        stdout(&output),
        "At 02:30, on the 13th of the month or on Friday, Europe/Berlin\n\
         \n\
         Fields\n  \
           minute        30  30\n  \
           hour          2   2\n  \
           day-of-month  13  the 13th of the month\n  \
           month         *   every month\n  \
           day-of-week   5   Friday\n\
         \n\
         Next fires\n  \
           Fri 2026-03-06 02:30:00 +01:00   2026-03-06T01:30:00Z   in 5 d 1 h\n  \
           Fri 2026-03-13 02:30:00 +01:00   2026-03-13T01:30:00Z   in 12 d 1 h\n  \
           Fri 2026-03-20 02:30:00 +01:00   2026-03-20T01:30:00Z   in 19 d 1 h\n  \
           Fri 2026-03-27 02:30:00 +01:00   2026-03-27T01:30:00Z   in 26 d 1 h\n  \
           Fri 2026-04-03 02:30:00 +02:00   2026-04-03T00:30:00Z   in 33 d\n\
         \n\
         Clock changes within a year\n  \
           none that touches these times\n\
         \n\
         Warnings\n  \
           day-of-month and day-of-week are both given: it fires when either matches\n"
    );
    let output = punctual(&[
        "cron",
        "explain",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--after",
        "2027-01-01T00:00:00Z",
        "--json",
    ]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["description"], "At 02:30, every day, Europe/Berlin");
    assert_eq!(answer["fixed_time"], true);
    assert_eq!(answer["dst_notes"][0]["text"], "02:30 does not exist on 2027-03-28; it fires once, at 03:00");
    assert_eq!(answer["warnings"], json!([]));
}

#[test]
fn e02_a_bad_line_does_not_stop_the_rest() {
    let answers = answers(
        b"{\"expr\":\"*/15 * * * *\",\"tz\":\"UTC\",\"after\":\"2025-01-01T10:15:00Z\",\"count\":2}\n\
          {\"expr\":\"61 * * * *\"}\n\
          not json\n\
          {\"expr\":\"* * * * *\",\"zone\":\"UTC\"}\n\
          {\"expr\":\"* * * * *\",\"tz\":\"Mars/Olympus\"}\n\
          \xff\xfe\n\
          \n\
          {\"expr\":\"* * * * *\",\"count\":10001}\n\
          {\"expr\":\"*/5 2 8-14 3 */7\",\"tz\":\"America/New_York\"}\n\
          {\"expr\":\"@every 90s\",\"after\":\"2025-01-01T00:00:00Z\",\"count\":1}",
    );
    assert_eq!(answers.len(), 10);
    assert_eq!(answers[0], json!({"fires": ["2025-01-01T10:30:00Z", "2025-01-01T10:45:00Z"]}));
    assert_eq!(answers[1], json!({"error": "minute field, column 1: 61 is out of range; use 0 to 59"}));
    for (index, part) in [
        (2, "expected"),
        (3, "unknown field `zone`"),
        (4, "unknown time zone"),
        (5, "expected value"),
        (6, "EOF"),
        (7, "the most is 10000"),
    ] {
        let message = answers[index]["error"].as_str().unwrap();
        assert!(message.contains(part), "line {index}: {message}");
    }
    assert_eq!(answers[8], json!({"fires": []}));
    assert_eq!(answers[9], json!({"fires": ["2025-01-01T00:01:30Z"]}));
}

#[test]
fn e02_a_line_of_megabytes_is_refused_and_passed_over() {
    let mut input = vec![b'x'; 5_000_000];
    input.extend(b"\n{\"expr\":\"@daily\",\"after\":\"2025-01-01T00:00:00Z\",\"count\":1}\n");
    assert_eq!(
        answers(&input),
        [
            json!({"error": "the line has 5000001 bytes; at most 65536 are read"}),
            json!({"fires": ["2025-01-02T00:00:00Z"]})
        ]
    );
}

#[test]
fn d05_a_closed_pipe_is_a_quiet_end() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "next", "* * * * *", "--count", "10000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
}
