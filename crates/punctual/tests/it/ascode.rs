//! `punctual plan`, `apply` and `export`: files in, one change out, and what is wrong with its line.

use crate::serve::punctual;
use crate::world::{World, on_both_stores};
use punctual_testkit::faults::CutProxy;
use punctual_testkit::postgres::Database;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A person with a folder of files and a store.
struct Shell {
    database: String,
    folder: tempfile::TempDir,
}

struct Told {
    code: Option<i32>,
    out: String,
    complaint: String,
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), complaint: text(output.stderr) }
    }
}

impl Told {
    fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.complaint);
        self.out
    }
}

impl Shell {
    fn on(database: &str) -> Self {
        Self { database: database.to_owned(), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, line: &str) -> Command {
        let mut words: Vec<&str> = line.split(' ').collect();
        let behind = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        words.splice(behind..behind, ["--database", &self.database]);
        let mut command = punctual(&words);
        command.current_dir(self.folder.path());
        command
    }

    fn run(&self, line: &str) -> Told {
        self.command(line).stdin(Stdio::null()).output().unwrap().into()
    }
}

const BILLING: &str = r#"
owner = "billing"

[calendars.holidays]
timezone = "Europe/Berlin"
days = [{ on = "12-25", note = "Christmas" }]

[templates.report]
job = { target = { kind = "command", argv = ["report.sh"] }, queue = "reports" }
parameters = [{ name = "month", type = "text", required = true }]

[limits."queue:reports"]
concurrency = 2

[channels.ops]
target = { kind = "slack", url = { secret = "env:SLACK_URL" } }

[rules.failures]
on = "failure"
steps = [{ channels = ["ops"] }]

[flows.etl]
order = "sequential"
steps = [
  { name = "extract", target = { kind = "command", argv = ["extract.sh"] } },
  { name = "load", target = { kind = "command", argv = ["load.sh"] } },
]

[schedules.nightly]
cron = "0 8 * * *"
timezone = "Europe/Berlin"
calendar = "holidays"
target = { kind = "command", argv = ["backup.sh", "--all"] }
starts_at = 2026-01-01T00:00:00Z

[schedules.monthly]
preset = "daily"
template = "report"
parameters = { month = "last" }
depends_on = { schedule = "nightly", within = "26h" }
paused = true
"#;

on_both_stores! {
    /// The whole way: planned, applied, applied again, drifted, checked, pruned.
    async fn d03_files_are_planned_applied_and_checked(world: &World) {
        let shell = Shell::on(&world.url);
        shell.write("billing.toml", BILLING);
        assert_eq!(shell.run("plan -f billing.toml --check").code, Some(9), "there is something to do");
        let planned = shell.run("plan -f billing.toml").good();
        assert!(planned.contains("+ make schedule nightly\n") && planned.contains("billing: 8 to make"), "{planned}");
        assert!(!planned.contains('\u{1b}'), "no colours for a pipe");
        let applied = shell.run("apply -f billing.toml").good();
        assert!(applied.ends_with("billing: 8 to make\nApplied.\n"), "{applied}");
        assert_eq!(shell.run("apply -f billing.toml").good(), "billing: nothing to do, 8 unchanged\n");
        assert_eq!(shell.run("plan -f billing.toml --check --prune").code, Some(0));
        let shown = shell.run("schedule show nightly --json").good();
        assert!(shown.contains(r#""managed_by":{"owner":"billing""#), "{shown}");
        assert!(shell.run("audit --json").good().contains("manifest.apply"));

        shell.run("schedule edit nightly --attempts 7").good();
        let drifted = shell.run("plan -f billing.toml --check");
        assert_eq!(drifted.code, Some(9));
        assert!(drifted.out.contains("changed by hand: retry.max_attempts: 3 -> 7"), "{}", drifted.out);
        assert!(drifted.out.contains("    retry.max_attempts: 7 -> 3\n    changed by hand"), "{}", drifted.out);
        shell.run("apply -f billing.toml --yes").good();
        assert_eq!(shell.run("plan -f billing.toml --check").code, Some(0));

        shell.write("ops.yaml", "owner: ops\nschedules:\n  sweep: { every: 1h, target: { kind: task, name: sweep } }\n");
        shell.run("apply -f ops.yaml").good();
        shell.write("empty.toml", "owner = \"ops\"\n");
        let left = shell.run("plan -f empty.toml --check");
        assert_eq!(left.code, Some(0), "what is left is nothing to do");
        assert!(left.out.contains("? left schedule sweep"), "{}", left.out);
        shell.run("apply -f empty.toml --prune").good();
        assert_eq!(shell.run("schedule show sweep").code, Some(3));
        assert_eq!(shell.run("plan -f billing.toml --check --prune").code, Some(0), "the other owner's are untouched");
    }

    /// How the next fires move, in the words of `cron explain`.
    async fn d03_a_plan_shows_how_fires_move_and_what_the_clock_does(world: &World) {
        let shell = Shell::on(&world.url);
        shell.write("m.toml", BILLING);
        shell.run("apply -f m.toml").good();
        shell.write("m.toml", &BILLING.replace("0 8 * * *", "30 2 * * *"));
        let planned = shell.run("plan -f m.toml --fires 2").good();
        let lines: Vec<&str> = planned.lines().map(str::trim).collect();
        let with = |begin: &str, part: &str| lines.iter().filter(|l| l.starts_with(begin) && l.contains(part)).count();
        assert_eq!(with("cron:", r#""0 8 * * *" -> "30 2 * * *""#), 1, "{planned}");
        assert_eq!((with("- 20", "T08:00:00+0"), with("+ 20", "T02:30:00+0")), (2, 2), "{planned}");
        assert_eq!(with("fires in the next 90 days:", "Europe/Berlin"), 1, "{planned}");
        assert_eq!(with("note: 02:30 does not exist on 20", "it fires once, at 03:00"), 1, "{planned}");
        // Whose calendar changes fires otherwise, whoever has it.
        shell.run("schedule add mine --cron @hourly --calendar holidays -- true").good();
        shell.write("m.toml", &BILLING.replace("days = [", "weekdays = [\"saturday\"]\ndays = ["));
        let planned = shell.run("plan -f m.toml --fires 100").good();
        assert!(planned.contains("* affected schedule mine (its calendar changes)"), "{planned}");
        assert!(planned.contains("skipped: calendar holidays"), "{planned}");
    }

    /// Written down in every format, and read again.
    async fn d03_an_export_changes_nothing_when_it_is_applied(world: &World) {
        let shell = Shell::on(&world.url);
        shell.write("m.toml", BILLING);
        shell.run("apply -f m.toml").good();
        shell.run("schedule add by-hand --every 90s --paused --label a=b -- sh -c echo").good();
        for format in ["toml", "yaml", "json"] {
            let file = format!("own.{format}");
            shell.run(&format!("export --owner billing -o {file}")).good();
            assert_eq!(shell.run(&format!("plan -f {file} --prune --check")).code, Some(0), "{format}");
            let all = shell.run(&format!("export --format {format}")).good();
            assert!(all.contains("by-hand") && all.contains("env:SLACK_URL"), "{all}");
            shell.write(&format!("all.{format}"), &all);
        }
        let refused = shell.run("plan -f all.yaml --owner billing");
        assert_eq!(refused.code, Some(4), "{}", refused.complaint);
        assert!(refused.complaint.contains("all.yaml:") && refused.complaint.contains("--adopt"), "{}", refused.complaint);
        shell.run("apply -f all.yaml --owner billing --adopt").good();
        for format in ["toml", "yaml", "json"] {
            let checked = shell.run(&format!("plan -f all.{format} --owner billing --prune --check"));
            assert_eq!(checked.code, Some(0), "{format}: {}{}", checked.out, checked.complaint);
        }
    }

    /// Files with mistakes: nothing is changed, and line and field are named.
    async fn e04_broken_files_change_nothing_and_say_where(world: &World) {
        let shell = Shell::on(&world.url);
        for (n, (file, text, place)) in BROKEN.iter().enumerate() {
            let name = format!("{n}.{file}");
            shell.write(&name, text);
            let refused = shell.run(&format!("apply -f {name} --yes"));
            assert_eq!(refused.code, Some(2), "{text}: {}{}", refused.out, refused.complaint);
            assert!(refused.complaint.contains(&format!("{name}:{place}")), "{text}: {}", refused.complaint);
            assert_eq!(refused.out, "");
        }
        assert_eq!(shell.run("export --format json").good(), "{}\n", "nothing was changed");
        assert_eq!(shell.run("audit -q").good(), "");
    }

    /// Several files and folders are one manifest.
    async fn d03_several_files_are_one_manifest(world: &World) {
        let shell = Shell::on(&world.url);
        shell.write("all/a.toml", "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ntarget = { kind = \"task\", name = \"t\" }\n");
        shell.write("all/deep/b.yml", "schedules:\n  b: { every: 1h, target: { kind: task, name: t } }\n---\nqueues: { q: {} }\n");
        shell.write("all/.hidden.toml", "nonsense");
        shell.write("all/notes.txt", "nonsense");
        let applied = shell.run("apply -f all").good();
        assert!(applied.contains("o: 3 to make"), "{applied}");
        shell.write("c.json", "{\n  \"schedules\": {\n    \"b\": {}\n  }\n}");
        let twice = shell.run("plan -f all -f c.json");
        assert_eq!(twice.code, Some(2));
        assert!(twice.complaint.contains("c.json:3:5: schedules.b: is said at all/deep/b.yml:2:3 already"), "{}", twice.complaint);
        let another = shell.run("plan -f all --owner p");
        assert!(another.complaint.contains("all/a.toml:1:1: owner: is `o`, and --owner is `p`"), "{}", another.complaint);
        let mut piped = shell.command("plan -f - --owner o --check --format yaml").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut piped.stdin.take().unwrap(), b"schedules: { z: { every: soon } }").unwrap();
        assert_eq!(piped.wait_with_output().unwrap().status.code(), Some(2));
        for (line, words) in [("plan -f nowhere.toml", "nowhere.toml cannot be read"), ("plan -f all/notes.txt", ".toml, .yaml")] {
            let refused = shell.run(line);
            assert_eq!(refused.code, Some(2));
            assert!(refused.complaint.contains(words), "{}", refused.complaint);
        }
    }

    /// What the documentation shows can be planned as it stands there.
    async fn e04_the_documentations_manifests_can_be_planned(world: &World) {
        let shell = Shell::on(&world.url);
        let blocks: Vec<&str> = include_str!("../../../../docs/as-code.md").split("```toml\n").skip(1).collect();
        assert!(!blocks.is_empty());
        for block in blocks {
            shell.write("doc.toml", block.split("```").next().unwrap());
            let planned = shell.run("plan -f doc.toml").good();
            assert!(planned.contains("    fires nothing while it is paused\n") && !planned.contains("as before"), "{planned}");
        }
    }

    /// Numbers keep every digit, or are not taken at all.
    async fn d03_numbers_keep_their_digits_or_are_refused(world: &World) {
        let shell = Shell::on(&world.url);
        let long = "12345678901234567890123";
        shell.write("m.yaml", &format!("owner: o\nschedules:\n  a:\n    every: 1h\n    input: {{ n: {long} }}\n    target: {{ kind: task, name: t }}\n"));
        let refused = shell.run("apply -f m.yaml");
        assert_eq!(refused.code, Some(2), "{}", refused.out);
        assert!(refused.complaint.contains("m.yaml:5:17: schedules.a.input.n: `12345678901234567890123`"), "{}", refused.complaint);
        shell.run(&format!("schedule add long --every 1h --input {{\"n\":{long}}} -- true")).good();
        for format in ["toml", "yaml", "json"] {
            let refused = shell.run(&format!("export --format {format}"));
            assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
            assert!(refused.complaint.contains(&format!("schedules.long.input.n: `{long}`")), "{}", refused.complaint);
        }
    }

    /// A section that is left empty is said by another file; nothing else is printed of a plan in JSON than what was done.
    async fn d03_an_empty_section_says_nothing(world: &World) {
        let shell = Shell::on(&world.url);
        shell.write("a.yaml", "owner: o\nschedules:\nqueues:\n");
        shell.write("b.yaml", "queues: { q: {} }\nschedules:\n  b: { every: 1h, target: { kind: task, name: t } }\n");
        for line in ["plan -f a.yaml -f b.yaml", "plan -f b.yaml -f a.yaml"] {
            assert!(shell.run(line).good().contains("o: 2 to make"));
        }
        let done = shell.run("apply -f a.yaml -f b.yaml --json").good();
        assert_eq!(done.matches("\"digest\"").count(), 1, "{done}");
        assert!(shell.run("plan -f a.yaml -f b.yaml").good().contains("nothing to do"));
    }

    /// Ten thousand schedules at once.
    async fn d03_ten_thousand_schedules_are_planned_in_one_pass(world: &World) {
        let shell = Shell::on(&world.url);
        shell.write("many.toml", &many(10_000, "1h"));
        let applied = shell.run("apply -f many.toml --fires 0").good();
        assert!(applied.contains("o: 10000 to make"), "{}", &applied[applied.len().saturating_sub(200)..]);
        assert_eq!(shell.run("plan -f many.toml --check --prune").good(), "o: nothing to do, 10000 unchanged\n");
        let moved = many(10_000, "1h").replacen("every = \"1h\"", "every = \"2h\"", 1);
        shell.write("many.toml", &moved);
        let planned = shell.run("plan -f many.toml").good();
        assert!(planned.ends_with("o: 1 to change, 9999 unchanged\n"), "{planned}");
    }
}

/// Each command says in its help what it does itself.
#[test]
fn e04_help_is_the_commands_own() {
    let begins = [
        ("plan", "Say what files would change"),
        ("apply", "Carry out what files say"),
        ("export", "Write down what is there"),
        ("why", ""),
        ("run", ""),
        ("status", ""),
    ];
    for (command, begin) in begins {
        let help = Told::from(punctual(&[command, "--help"]).output().unwrap()).good();
        assert!(help.starts_with(begin) && !help.contains("where the API is"), "{help}");
    }
}

fn many(count: usize, every: &str) -> String {
    let mut text = "owner = \"o\"\n".to_owned();
    for n in 0..count {
        writeln!(text, "[schedules.s{n:05}]\nevery = \"{every}\"\ntarget = {{ kind = \"task\", name = \"t\" }}")
            .unwrap();
    }
    text
}

/// A plan that has nothing to do asks the database for pages, however many schedules there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d03_a_plan_reads_pages_and_not_things() {
    let database = Database::empty().await;
    let proxy = CutProxy::start(database.server().to_owned()).await;
    let (direct, through) = (Shell::on(&database.url()), Shell::on(&database.url_through(proxy.address())));
    let mut asked = Vec::new();
    for count in [1, 2_000] {
        direct.write("many.toml", &many(count, "1h"));
        through.write("many.toml", &many(count, "1h"));
        direct.run("apply -f many.toml --fires 0").good();
        proxy.listen();
        through.run("plan -f many.toml --check").good();
        asked.push(proxy.heard().to_server.len());
    }
    // Four pages more of each of the two lists; a question for each schedule would be a hundred times that.
    assert!(asked[1] < asked[0] + 8 * 1_000, "{asked:?} bytes were asked");
}

/// A format, a file, and where the mistake is told: line, column, field.
const BROKEN: &[(&str, &str, &str)] = &[
    ("toml", "owner = \"o\"\n[schedules.a\n", "2:"),
    ("toml", "owner = \"o\"\n[schedules.a]\nevery = 1h\n", "3:"),
    ("toml", "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\nevery = \"2h\"\n", "4:"),
    ("yaml", "owner: o\nschedules:\n  a: { every: 1h\n", ""),
    ("yaml", "owner: o\nschedules:\n  a:\n    every: 1h\n    every: 2h\n", "5:"),
    ("json", "{ \"owner\": \"o\",\n  \"schedules\": { \"a\": }\n}", "2:"),
    ("toml", "[schedules.a]\nevery = \"1h\"\n", " owner: is missing"),
    (
        "toml",
        "owner = \"o\"\n[shedules.a]\nevery = \"1h\"\n",
        "2:2: shedules: a manifest has no such section; did you mean `schedules`?",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\ncrn = \"@daily\"\ntarget = { kind = \"task\", name = \"t\" }\n",
        "3:1: schedules.a.crn: there is no such field; did you mean `cron`?",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\ntarget = { kind = \"task\", name = \"t\" }\ncron = \"0 25 * * *\"\n",
        "4:1: schedules.a.cron: ",
    ),
    (
        "yaml",
        "owner: o\nschedules:\n  a:\n    cron: '@daily'\n    timezone: Europe/Belrin\n    target: { kind: task, name: t }\n",
        "5:5: schedules.a.timezone: ",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"soon\"\ntarget = { kind = \"task\", name = \"t\" }\n",
        "3:1: schedules.a.every: ",
    ),
    ("toml", "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\n", "2:12: schedules.a.target: is missing"),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ncron = \"@daily\"\ntarget = { kind = \"task\", name = \"t\" }\n",
        "4:1: schedules.a.cron: ",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ntarget = { kind = \"tsk\", name = \"t\" }\n",
        "4:1: schedules.a.target: ",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ntarget = { kind = \"task\", name = \"t\" }\ncalendar = \"none\"\n",
        "5:1: schedules.a.calendar: there is no calendar `none`",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ntemplate = \"none\"\n",
        "4:1: schedules.a.template: there is no template `none`",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ntarget = { kind = \"task\", name = \"t\" }\npriority = \"high\"\n",
        "5:1: schedules.a.priority: invalid type",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nevery = \"1h\"\ntarget = { kind = \"task\", name = \"t\" }\nenabled = false\n",
        "5:1: schedules.a.enabled: is not for manifests; say paused",
    ),
    ("toml", "owner = \"o\"\n[limits.\"queu:mail\"]\nconcurrency = 1\n", "2:"),
    ("toml", "owner = \"o\"\n[calendars.c]\ndays = [{ on = \"13-45\" }]\n", "3:"),
    ("toml", "owner = \"o\"\n[rules.r]\non = \"failure\"\nsteps = []\n", "4:1: rules.r.steps: "),
    (
        "toml",
        "owner = \"o\"\n[flows.f]\nsteps = [{ name = \"a\", target = { kind = \"task\", name = \"t\" }, after = [\"b\"] }]\n",
        "3:",
    ),
    (
        "toml",
        "owner = \"o\"\n[schedules.a]\nat = 2001-01-01T00:00:00Z\ntarget = { kind = \"task\", name = \"t\" }\n",
        "3:1: schedules.a.at: leaves no slot after now",
    ),
];
