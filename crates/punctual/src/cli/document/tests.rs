//! What people write is read as they mean it, with its place, and written so that it is read the same again.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn one(format: Format, text: &str) -> Document {
    let mut found = Document::parse(format, text).unwrap_or_else(|broken| panic!("{broken}\n{text}"));
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0)
}

fn broken(format: Format, text: &str) -> (usize, String) {
    let broken = Document::parse(format, text).unwrap_err();
    (broken.place.unwrap().line, broken.problem)
}

#[test]
fn the_same_is_read_from_all_three_with_its_place() {
    let toml = "owner = 'a'\n\n[schedules.\"n/1\"]\ncron = \"0 2 * * *\"\npriority = 3\ntags = [\n  'x',\n  'y']\n";
    let yaml = "owner: a\nschedules:\n  n/1:\n    cron: 0 2 * * *\n    priority: 3\n    tags:\n      - x\n      - y\n";
    let json = "{\"owner\": \"a\",\n \"schedules\": {\"n/1\": {\n \"cron\": \"0 2 * * *\", \"priority\": 3,\n\"tags\": [\"x\",\n\"y\"]}}}";
    let expected =
        json!({"owner": "a", "schedules": {"n/1": {"cron": "0 2 * * *", "priority": 3, "tags": ["x", "y"]}}});
    let lines = |format, text| {
        let document = one(format, text);
        assert_eq!(document.value, expected);
        ["/owner", "/schedules/n~11", "/schedules/n~11/cron", "/schedules/n~11/tags/1", "/schedules/n~11/nothing/here"]
            .map(|pointer| document.place_of(pointer).unwrap().line)
    };
    assert_eq!(lines(Format::Toml, toml), [1, 3, 4, 8, 3]);
    assert_eq!(lines(Format::Yaml, yaml), [1, 3, 4, 8, 3]);
    assert_eq!(lines(Format::Json, json), [1, 2, 3, 5, 2]);
}

#[test]
fn yaml_is_read_by_the_core_schema() {
    let text = "a: no\nb: 0o17\nc: 1_000\nd: 012\ne: 1e3\nf: ~\ng: '1'\nh: 2026-12-01\ni: !!str 7\nj: +5\nk: .5\nl: 0x1F\nm: on\nn: 1.5.2\n";
    let expected = json!({"a": "no", "b": 15, "c": "1_000", "d": 12, "e": 1000.0, "f": null, "g": "1", "h": "2026-12-01",
        "i": "7", "j": 5, "k": 0.5, "l": 31, "m": "on", "n": "1.5.2"});
    let read = one(Format::Yaml, text).value;
    assert_eq!(read, expected);
}

#[test]
fn several_documents_are_read_from_yaml_alone() {
    let found = Document::parse(Format::Yaml, "---\na: 1\n---\n# nothing\n---\nb: 2\n").unwrap();
    assert_eq!(found.iter().map(|one| one.value.clone()).collect::<Vec<_>>(), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(found[1].place_of("/b").unwrap().line, 6);
}

#[test]
fn what_is_broken_is_named_with_its_line() {
    assert_eq!(broken(Format::Toml, "a = 1\nb = [1,\n").0, 2);
    assert_eq!(broken(Format::Toml, "a = 1\n\na = 2\n").0, 3);
    assert_eq!(
        broken(Format::Toml, "a = 1\nb = 99999999999999999999\n"),
        (2, "`99999999999999999999` is too large a number".into())
    );
    assert_eq!(broken(Format::Toml, "b = nan\n").0, 1);
    assert_eq!(broken(Format::Yaml, "a: 1\nb: 2\na: 3\n"), (3, "`a` is there twice".into()));
    assert_eq!(broken(Format::Yaml, "a: 1\nb: [1\nc: }\n").0, 3);
    assert_eq!(broken(Format::Yaml, "x: &a {k: 1}\ny:\n  <<: *a\n").0, 3);
    assert_eq!(broken(Format::Yaml, "? [a]\n: 1\n").0, 1);
    assert_eq!(broken(Format::Yaml, "a: !ruby/object x\n").0, 1);
    assert_eq!(broken(Format::Yaml, "a: 1\nb: .nan\n").0, 2);
    assert_eq!(broken(Format::Yaml, "a: &x [*x]\n").0, 1);
    assert_eq!(broken(Format::Json, "{\"a\": 1,\n\"b\": }").0, 2);
}

#[test]
fn json_says_each_name_once_and_knows_where_it_stands() {
    let text = "{\n \"a\": \"\\ud83d\\ude00 \\\" \\\\\",\n \"<<\": {\"x/y\": [1, {}, [], \"z\",\n {\"b\": null}]}}";
    let read = one(Format::Json, text);
    assert_eq!(read.value, json!({"a": "😀 \" \\", "<<": {"x/y": [1, {}, [], "z", {"b": null}]}}));
    let place = |pointer: &str| read.place_of(pointer).map(|place| (place.line, place.column)).unwrap();
    assert_eq!(["/a", "/<<", "/<</x~1y/3", "/<</x~1y/4/b"].map(place), [(2, 2), (3, 2), (3, 28), (4, 3)]);
    assert_eq!(broken(Format::Json, "{\"a\": 1,\n\"b\": {\"c\": 1,\n\"c\": 2}}"), (3, "`c` is there twice".into()));
    assert_eq!(one(Format::Yaml, "'<<': 1\n").value, json!({"<<": 1}));
}

#[test]
fn numbers_are_kept_or_refused() {
    for number in ["12345678901234567890123", "0.1234567890123456789012", "1e-400"] {
        for (format, text) in [
            (Format::Json, format!("{{\"s\":\n{{\"n\": {number}}}}}")),
            (Format::Yaml, format!("s:\n  n: {number}\n")),
            (Format::Toml, format!("[s]\nn = {number}\n")),
        ] {
            let (line, problem) = broken(format, &text);
            assert!(line == 2 && problem.contains(number), "{format:?}: {problem}");
        }
    }
    for number in ["1.50", "0.1", "-1e3", "2.5E-3", "-0.0", "100000000000000000000.0", "9007199254740993", "1.0e+2"] {
        for (format, text) in [
            (Format::Json, format!("{{\"n\": {number}}}")),
            (Format::Yaml, format!("n: {number}\n")),
            (Format::Toml, format!("n = {number}\n")),
        ] {
            one(format, &text);
        }
    }
}

#[test]
fn a_short_text_does_not_become_a_large_document() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let again = format!("*a{}, ", n - 1).repeat(10);
        bomb.extend([format!("a{n}: &a{n} ["), again.trim_end_matches(", ").to_owned(), "]\n".to_owned()]);
    }
    assert!(broken(Format::Yaml, &bomb).1.contains("100000"), "{bomb}");
    for (format, text) in [(Format::Yaml, "[".repeat(100_000)), (Format::Toml, format!("a = {}", "[".repeat(1000)))] {
        assert!(Document::parse(format, &text).is_err());
    }
}

#[test]
fn a_manifest_reads_well() {
    let value = json!({"owner": "billing", "schedules": {"nightly": {"cron": "0 2 * * *", "timezone": "Europe/Berlin",
        "target": {"kind": "command", "argv": ["sh", "-c", "a\nb"]}, "description": "line one\nline \"two\"", "labels": {}}}});
    assert_eq!(
        write(Format::Toml, &value).unwrap(),
        "owner = \"billing\"\n\n[schedules.nightly]\ncron = \"0 2 * * *\"\ndescription = \"\"\"\nline one\nline \"two\\\"\"\"\"\nlabels = {}\ntarget = { argv = [\"sh\", \"-c\", \"a\\nb\"], kind = \"command\" }\ntimezone = \"Europe/Berlin\"\n"
    );
    assert_eq!(
        write(Format::Yaml, &value).unwrap(),
        "owner: billing\nschedules:\n  nightly:\n    cron: \"0 2 * * *\"\n    description: \"line one\\nline \\\"two\\\"\"\n    timezone: Europe/Berlin\n    labels: {}\n    target:\n      argv: [sh, \"-c\", \"a\\nb\"]\n      kind: command\n"
    );
    assert!(write(Format::Toml, &json!({"a": [null]})).unwrap_err().contains("YAML"));
}

/// Any document that all three formats can say.
fn documents() -> impl Strategy<Value = Value> {
    let text =
        prop_oneof!["\\PC{0,12}", "[a-z0-9 :#'\"\\\\\n\t-]{0,16}", Just("no".to_owned()), Just("1e5".to_owned())];
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e12..1e12).prop_map(|number: f64| Value::from(number)),
        text.clone().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    });
    prop::collection::btree_map("\\PC{1,8}", value, 0..5).prop_map(|members| members.into_iter().collect())
}

proptest! {
    #[test]
    fn what_is_written_is_read_the_same_again(value in documents()) {
        for format in [Format::Toml, Format::Yaml, Format::Json] {
            let text = write(format, &value).unwrap();
            let read = match Document::parse(format, &text) {
                Ok(mut found) => found.pop().map(|document| document.value),
                Err(broken) => panic!("{format:?}: {broken}\n{text}"),
            };
            prop_assert_eq!(read.as_ref(), Some(&value), "{:?}\n{}", format, text);
        }
    }

    #[test]
    fn garbage_is_refused_and_nothing_worse(text in "\\PC{0,200}|[\\[\\]{}:,&*!|>'\"%@`# \n-]{0,80}") {
        for format in [Format::Toml, Format::Yaml, Format::Json] {
            let _refused_or_not = Document::parse(format, &text);
        }
    }
}
