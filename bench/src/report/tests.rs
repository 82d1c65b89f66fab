//! What is kept can be read again, what is shown is what was kept, and nobody edits it by hand.

use super::files;
use super::goals::{Bound, Goal};
use super::machine::{Engine, FILE_SYSTEM, Machine};
use super::markdown;
use super::number::{rounded, spelled, with_unit};
use super::plot::{Bar, Bars, Group, Mark, Plot, Tone};
use super::sheet::{Answer, Cell, Sheet, Table};
use super::survey::{Process, file_system, of_trees, percent, process, whole_machine};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sheet() -> Sheet {
    let mut sheet = Sheet::new("drain", "Draining a queue", "drain");
    "2026-11-16".clone_into(&mut sheet.measured);
    sheet.say("A queue is emptied.");
    sheet.answer(Goal::DrainAgainstRaw, "", 0.912_345_678);
    sheet.answer(Goal::DrainAgainstPeerWithRecord, "", 2.0);
    let mut table = Table::new("", ["what", "a second", "middle half", "took"]);
    table.row([
        Cell::words("a | b"),
        Cell::number(78_282.4, 0),
        Cell::range((0.8, 1.0), 2),
        Cell::with_unit(1.5, 1, "ms"),
    ]);
    table.row([Cell::words("not measured"), Cell::number(f64::NAN, 0), Cell::range((f64::NAN, 1.0), 2), Cell::Nothing]);
    sheet.tables.push(table);
    let bars = vec![Bar::new("raw", Tone::Raw, 10.0, None), Bar::new("ours", Tone::Ours, 9.0, Some((8.0, 9.5)))];
    sheet.plots.push(Plot::Bars(Bars {
        title: "Drained".to_owned(),
        groups: vec![Group { name: String::new(), bars }],
        marks: vec![Mark::new(8.5, "goal")],
        ..Bars::default()
    }));
    sheet.machine = Some(Machine {
        cores: 2,
        processor: "Sundial".to_owned(),
        memory_gb: 8.0,
        kernel: "6.1".to_owned(),
        databases: vec![Engine {
            name: "PostgreSQL".to_owned(),
            version: "15.1".to_owned(),
            settings: [("fsync".to_owned(), "on".to_owned())].into(),
        }],
        others_percent: 30.0,
        commit: Some("abc1234+".to_owned()),
        commits_per_second: [("PostgreSQL".to_owned(), 7_012.3)].into(),
    });
    sheet
}

#[test]
fn what_hand_written_sql_has_is_told_where_it_misses_the_goal_itself() {
    let mut sheet = sheet();
    sheet.answers.clear();
    let goal = Goal::EnqueueBatchedAgainstPeer;
    for (measured, raw) in [(1.5, 1.7), (1.5, 2.2), (2.1, 1.7), (1.5, f64::NAN)] {
        sheet.answer_beside_raw(goal, "", measured, raw);
    }
    let said: Vec<String> = sheet.answers.iter().map(Answer::verdict).collect();
    assert_eq!(said, ["**not met**; raw SQL itself has 1.70×", "**not met**", "met", "**not met**"]);
}

#[test]
fn a_verdict_on_a_part_says_so() {
    let mut sheet = sheet();
    for answer in &mut sheet.answers {
        answer.is_partly = answer.goal.is_against_peers();
    }
    let said: Vec<String> = sheet.answers.iter().map(Answer::verdict).collect();
    assert_eq!(said, ["met", "partly: **not met**"]);
    let kept = serde_json::to_string(&sheet).expect("a sheet");
    assert_eq!(kept.matches("\"partly\":true").count(), 1);
    assert_eq!(serde_json::from_str::<Sheet>(&kept).expect("the same sheet"), sheet);
    let against_peers: Vec<&str> =
        Goal::all().filter(|goal| goal.is_against_peers()).map(|goal| goal.wanted().words).collect();
    assert_eq!(against_peers.len(), Goal::all().filter(|goal| goal.wanted().words.contains("peer")).count());
    assert!(against_peers.iter().all(|words| words.contains("the best peer")), "{against_peers:?}");
}

#[test]
fn a_result_of_which_machine_and_durability_are_not_known_is_marked() {
    let old = Sheet { machine: None, ..sheet() };
    let page = markdown::page(&[old]);
    assert!(page.contains("| met (old) ") && page.contains("**not met** (old)"), "{page}");
    assert!(page.contains("**from before machine, settings and durability were kept with it"), "{page}");
    assert!(!markdown::page(&[sheet()]).contains("met (old)"));
}

#[test]
fn results_from_before_a_goal_was_renamed_can_be_read() {
    let text = serde_json::to_string(&sheet()).expect("a sheet");
    let old = text.replace("\"drain-against-raw\"", "\"drain-against-raw-in-large-batches\"");
    let old =
        old.replace(",\"commit\":\"abc1234+\"", "").replace(",\"commits_per_second\":{\"PostgreSQL\":7012.3}", "");
    assert!(!old.contains("commit"), "{old}");
    let read: Sheet = serde_json::from_str(&old).expect("readable");
    assert_eq!(read.answers[0].goal, Goal::DrainAgainstRaw);
    assert!(!markdown::section(&read, None).contains("commit"));
}

#[test]
fn what_is_kept_in_memory_is_not_durable() {
    let mut machine = sheet().machine.expect("a machine");
    assert_eq!(machine.in_memory(), None, "of old results nothing is known");
    let mut is_in = |kind: &str| {
        machine.databases[0].settings.insert(FILE_SYSTEM.to_owned(), kind.to_owned());
        machine.in_memory()
    };
    assert_eq!(is_in("ext4"), None);
    let words = is_in("tmpfs").expect("a reason");
    assert!(words.contains("PostgreSQL") && words.contains("tmpfs"), "{words}");
}

#[test]
fn a_folder_is_in_the_file_system_that_was_mounted_last_above_it() {
    let mounts =
        "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp xfs rw 0 0\ntmpfs /tmpfiles tmpfs rw 0 0\n";
    let kind = |path: &str| file_system(mounts, Path::new(path)).unwrap_or_default();
    assert_eq!(
        (kind("/var/lib"), kind("/tmp/one"), kind("/tmpfiles/a")),
        ("ext4".into(), "xfs".into(), "tmpfs".into())
    );
    assert_eq!(file_system("", Path::new("/")), None);
}

/// If this fails, `punctual-bench render` was not run after a result had changed, or somebody wrote by hand.
#[test]
fn the_page_and_its_drawings_are_what_the_results_give() {
    let folder = files::folder();
    let files = files::rendered(&files::load(&folder).expect("all results can be read"));
    for (path, wanted) in &files {
        let found = std::fs::read_to_string(folder.join(path)).unwrap_or_default();
        assert!(found == *wanted, "{} is not what the results give: run `cargo xtask bench render`", path.display());
    }
    let drawn: Vec<PathBuf> = files.into_keys().filter(|path| path.starts_with("plots")).collect();
    assert_eq!(
        files::drawings(&folder).expect("a folder"),
        drawn,
        "drawings that no result has: run `cargo xtask bench render`"
    );
}

#[test]
fn a_sheet_is_kept_and_read_again_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = Sheet { key: "peers-drain".to_owned(), ..sheet() };
    let other = Sheet { key: "anything".to_owned(), ..sheet() };
    files::save(folder.path(), &other).expect("saved");
    files::save(folder.path(), &one).expect("saved");
    files::save(folder.path(), &one).expect("saved in the place of the first");
    let read = files::load(folder.path()).expect("read");
    assert_eq!(read, [one, other], "a section that the order names comes first");
}

#[test]
fn a_result_that_is_not_a_sheet_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    files::save(folder.path(), &sheet()).expect("saved");
    let path = folder.path().join("results/drain.json");
    let text = std::fs::read_to_string(&path).expect("there");
    std::fs::write(&path, text.replace("drain-against-raw", "drain-against-time")).expect("written");
    let error = files::load(folder.path()).expect_err("no such goal").to_string();
    assert!(error.contains("drain.json") && error.contains("drain-against-time") && error.contains("again"), "{error}");
    std::fs::write(&path, text).expect("written");
    std::fs::rename(&path, folder.path().join("results/other.json")).expect("renamed");
    let error = files::load(folder.path()).expect_err("another name").to_string();
    assert!(error.contains("other.json") && error.contains("drain"), "{error}");
}

#[test]
fn every_goal_is_in_its_place() {
    for (place, goal) in Goal::all().enumerate() {
        assert_eq!(goal as usize, place, "{goal:?}");
    }
    let numbers: BTreeSet<u8> = Goal::all().filter_map(|goal| goal.wanted().number).collect();
    assert_eq!(numbers, (1..=12).collect());
    let words: BTreeSet<&str> = Goal::all().map(|goal| goal.wanted().words).collect();
    assert_eq!(words.len(), Goal::all().count(), "each is said in words of its own");
}

#[test]
fn a_bound_belongs_to_one_side_only() {
    let raw = Goal::DrainAgainstRaw.wanted();
    assert!(raw.is_met(0.85) && !raw.is_met(0.849));
    let tail = Goal::StartTailAgainstRaw.wanted();
    assert!(tail.is_met(2.0) && !tail.is_met(2.01));
    let idle = Goal::IdleCore.wanted();
    assert!(idle.is_met(0.99) && !idle.is_met(1.0));
    assert!(Goal::all().all(|goal| match goal.wanted().bound {
        Bound::AtLeast(bound) | Bound::AtMost(bound) | Bound::Below(bound) => bound.is_finite(),
    }));
    assert_eq!((raw.bound_words(), idle.bound_words()), ("≥ 0.85×".to_owned(), "< 1 %".to_owned()));
}

#[test]
fn the_page_says_of_each_goal_whether_it_is_met() {
    let page = markdown::page(&[sheet()]);
    let line = |words: &str| page.lines().find(|line| line.contains(words)).unwrap_or_default().to_owned();
    let squeezed = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let raw = squeezed(line("drain on PostgreSQL, against raw SQL"));
    assert_eq!(
        raw,
        "| P1 | drain on PostgreSQL, against raw SQL | 0.91× | ≥ 0.85× | met | [drain](#draining-a-queue) |"
    );
    assert!(line("the best peer that keeps one").contains("**not met**"));
    assert!(page.contains("- P1: drain on PostgreSQL, against raw SQL: 0.91× (goal: ≥ 0.85×, met)\n- P1: "), "{page}");
    assert!(line("the best peer that keeps no record").contains("not measured"));
}

#[test]
fn the_page_says_where_it_was_measured_and_who_else_was_there() {
    let page = markdown::page(&[sheet()]);
    assert!(page.contains("Measured on 2 cores (Sundial), 8.0 GB of memory, Linux 6.1"), "{page}");
    assert!(
        page.contains(
            "`cargo xtask bench drain`, 2026-11-16, commit abc1234+, with PostgreSQL 15.1 (fsync on; 7,012 commits/s); \
             others used 30 %"
        ),
        "{page}"
    );
    assert!(page.contains("![Drained](plots/drain-1.svg)"), "{page}");
    let elsewhere = markdown::section(&sheet(), Some("1 core"));
    assert!(elsewhere.contains(", on 2 cores (Sundial)"), "{elsewhere}");
}

#[test]
fn a_table_has_its_numbers_to_the_right_and_keeps_its_columns() {
    let text = markdown::table(&sheet().tables[0]);
    let expected = "\
| what         | a second |  middle half |   took |
| --- | ---: | ---: | ---: |
| a \\| b       |   78,282 | 0.80 to 1.00 | 1.5 ms |
| not measured |          |              |        |
";
    assert_eq!(text, expected);
}

#[test]
fn numbers_are_written_for_people() {
    let cases = [(1_234_567.0, 0, "1,234,567"), (999.0, 0, "999"), (-1_234.5, 1, "-1,234.5"), (0.866, 2, "0.87")];
    for (value, digits, words) in cases {
        assert_eq!(spelled(value, digits), words);
    }
    assert_eq!(spelled(-0.001, 1), "0.0");
    assert_eq!(
        (with_unit(1.5, 1, "×"), with_unit(3.0, 0, "ms"), with_unit(3.0, 0, "")),
        ("1.5×".into(), "3 ms".into(), "3".into())
    );
    assert_eq!((rounded(0.123_456_789), rounded(78_282.4), rounded(0.0)), (0.123_457, 78_282.4, 0.0));
}

#[test]
fn time_of_others_is_what_is_neither_idle_nor_ours() {
    let stat = "cpu  100 10 40 800 30 5 10 5 0 0\ncpu0 1 2 3\n";
    assert_eq!(whole_machine(stat), Some((1000.0, 170.0)));
    assert_eq!(whole_machine("intr 1\n"), None);
    let one = process(7, "7 (a) b (c) S 3 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0").expect("a process");
    assert_eq!(one, Process { id: 7, parent: 3, ticks: 50.0 });
    let of = |id, parent| Process { id, parent, ticks: 1.0 };
    let all = [of(9, 8), of(8, 7), of(7, 1), of(6, 1), of(5, 6)];
    assert_eq!(spelled(of_trees(&BTreeSet::from([7]), &all), 0), "3");
    assert_eq!(spelled(of_trees(&BTreeSet::from([7, 8]), &all), 0), "3", "nobody counts twice");
    assert_eq!((percent(1.0, 8.0), percent(-1.0, 8.0), percent(1.0, 0.0)), (12.5, 0.0, 0.0));
}
