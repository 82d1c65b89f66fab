//! Every command of the command line, over HTTP and in its own process, on both stores; what it prints as JSON is what
//! the API's document promises.

use crate::serve::{Server, punctual};
use crate::world::{World, on_both_stores};
use punctual_testkit::postgres::Authority;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;

/// What a command prints with `--json`.
#[derive(Debug, Clone, Copy)]
enum Prints {
    /// The answer to this call.
    Answer(&'static str, &'static str),
    /// The same of a call that also answers otherwise.
    Created(&'static str, &'static str),
    /// One object on each line, all of this schema.
    Lines(&'static str),
    /// Nothing: the call answers with nothing.
    Nothing,
}

use Prints::{Answer, Created, Lines, Nothing};

/// The life of a few schedules and jobs. `{word}` stands for what an earlier command printed; `=word` keeps the id.
const STORY: &[(&str, Prints)] = &[
    (
        "schedule add nightly --cron '30 2 * * *' --tz Europe/Berlin --label team=ops --attempts 2 --json -- true",
        Answer("post", "/schedules"),
    ),
    (
        "schedule add once --at 2099-01-01T00:00:00Z --paused --http https://example.org/x --json",
        Answer("post", "/schedules"),
    ),
    ("schedule ls --json", Answer("get", "/schedules")),
    ("schedule ls --label team=ops -o jsonl", Lines("Schedule")),
    ("schedule show nightly --json", Answer("get", "/schedules/{key}")),
    ("schedule edit nightly --attempts 5 --description x --json", Answer("patch", "/schedules/{key}")),
    ("schedule pause nightly --note 'not now' --json", Answer("post", "/schedules/{key}/pause")),
    ("schedule pause nightly --until 2099-01-01T00:00 --json", Answer("post", "/schedules/{key}/pause")),
    ("schedule resume nightly --json", Answer("post", "/schedules/{key}/resume")),
    (
        "calendar add feasts --tz Europe/Berlin --day 12-25=Christmas --day 2026-04-06 --weekday sunday \
         --window 2026-12-30T00:00:00Z..2027-01-02T00:00:00Z=freeze --json",
        Answer("post", "/calendars"),
    ),
    ("flow add pair --sequential --step a=true --step 'b=echo 2' --json", Answer("put", "/flows/{name}")),
    ("flow ls --json", Answer("get", "/flows")),
    ("flow show pair --json", Answer("get", "/flows/{name}")),
    ("flow run pair --input '{\"day\": 1}' --queue flows --timeout 1h --json", Created("post", "/jobs")),
    ("flow rm pair --json", Nothing),
    ("calendar ls --json", Answer("get", "/calendars")),
    ("calendar show feasts --json", Answer("get", "/calendars/{name}")),
    ("calendar edit feasts --no-windows --description x --json", Answer("patch", "/calendars/{name}")),
    (
        "schedule edit nightly --calendar feasts --burst-allowed --pause-after-failures 5 --json",
        Answer("patch", "/schedules/{key}"),
    ),
    ("schedule next nightly --count 3 --json", Answer("get", "/schedules/{key}/upcoming")),
    ("schedule reschedule nightly 2099-03-29T02:30 --json", Answer("post", "/schedules/{key}/reschedule")),
    ("schedule skip nightly --json", Answer("post", "/schedules/{key}/skip-next")),
    (
        "schedule trigger nightly --input '{\"n\":12345678901234567890123}' --json =triggered",
        Answer("post", "/schedules/{key}/trigger"),
    ),
    ("schedule runs nightly --json", Answer("get", "/schedules/{key}/runs")),
    ("schedule slots nightly --json", Answer("get", "/schedules/{key}/slots")),
    ("why nightly 2026-11-16T02:30 --json", Answer("get", "/schedules/{key}/why")),
    ("why nightly 2027-03-28T02:30 --json", Answer("get", "/schedules/{key}/why")),
    ("schedule edit nightly --no-calendar --json", Answer("patch", "/schedules/{key}")),
    ("calendar rm feasts --json", Nothing),
    ("settings edit --fires-per-second 500 --json", Answer("patch", "/settings")),
    ("settings show --json", Answer("get", "/settings")),
    (
        "schedule backfill nightly --from {three_days_ago} --until {yesterday} --json",
        Answer("post", "/schedules/{key}/backfill"),
    ),
    (
        "schedule backfill nightly --from {three_days_ago} --until {yesterday} --per-minute 1 --yes --json =filled",
        Created("post", "/schedules/{key}/backfill"),
    ),
    ("backfill ls nightly --json", Answer("get", "/schedules/{key}/backfills")),
    ("backfill show {filled} --json", Answer("get", "/backfills/{id}")),
    ("backfill cancel {filled} --json", Answer("post", "/backfills/{id}/cancel")),
    ("schedule stats nightly --window 1d --json", Answer("get", "/schedules/{key}/stats")),
    ("template add hello --queue held --json -- echo hello", Answer("post", "/templates")),
    ("template ls --json", Answer("get", "/templates")),
    ("template show hello --json", Answer("get", "/templates/{name}")),
    ("template add letter --param to:text! --param copies:integer=1 --json -- sh -c cat", Answer("post", "/templates")),
    ("job add --queue held --template letter --set to=ada --set copies=3 --json", Answer("post", "/jobs")),
    ("preset add payday '0 9 25 * *' --description 'the 25th' --json", Answer("post", "/cron/presets")),
    ("preset ls --json", Answer("get", "/cron/presets")),
    (
        "schedule add wages --preset payday --tz Europe/Berlin --template letter --set to=all --paused --json",
        Answer("post", "/schedules"),
    ),
    ("schedule add early --preset weekdays-9am --paused --json -- true", Answer("post", "/schedules")),
    ("template rm letter --json", Nothing),
    ("preset rm payday --json", Nothing),
    ("queue pause held --json", Answer("patch", "/queues/{name}")),
    ("job add --template hello --json =first", Answer("post", "/jobs")),
    ("job add --queue held --priority 3 --serial-key k --tag cpu --json =second -- sleep 9", Answer("post", "/jobs")),
    ("job add --queue held --job-key one --json =keyed -- true", Answer("post", "/jobs")),
    ("job add --queue held --unique-for 1h --unique-key daily --json -- true", Answer("post", "/jobs")),
    ("job add --run-at 2099-01-01T00:00:00Z --task mail --json =later", Answer("post", "/jobs")),
    ("job ls --queue held --json", Answer("get", "/jobs")),
    ("job ls --schedule nightly -o jsonl", Lines("Job")),
    ("job show {first} --json", Answer("get", "/jobs/{id}")),
    ("job move {first} --priority 7 --json", Answer("post", "/jobs/{id}/move")),
    ("job edit {keyed} --input '{\"a\":1}' --json =edited", Answer("patch", "/jobs/{id}")),
    ("queue ls --json", Answer("get", "/queues")),
    ("queue show held --json", Answer("get", "/queues/{name}")),
    ("queue jobs held --json", Answer("get", "/queues/{name}/jobs")),
    ("job cancel {second} --json", Answer("post", "/jobs/{id}/cancel")),
    ("job retry {second} --json =again", Answer("post", "/jobs/{id}/retry")),
    ("job bulk cancel --queue nowhere --json", Answer("post", "/jobs/bulk")),
    ("job bulk reprioritise --queue held --priority 4 --dry-run --json", Answer("post", "/jobs/bulk")),
    ("job bulk reprioritise --queue held --priority 4 --yes --wait --json", Answer("get", "/bulk-operations/{id}")),
    ("job bulk retry --state cancelled --queue nowhere --yes --json =bulk", Answer("get", "/bulk-operations/{id}")),
    ("bulk ls --json", Answer("get", "/bulk-operations")),
    ("bulk show {bulk} --json", Answer("get", "/bulk-operations/{id}")),
    ("bulk cancel {bulk} --json", Answer("post", "/bulk-operations/{id}/cancel")),
    ("queue resume held --json", Answer("patch", "/queues/{name}")),
    ("queue reserve other --for 1m --json =hold", Answer("post", "/queues/{name}/reservations")),
    ("queue release {hold} --json", Nothing),
    ("queue reserve other --wait 5s --json =held", Answer("post", "/queues/{name}/reservations")),
    ("queue release {held} --json", Nothing),
    ("queue serial ls --json", Answer("get", "/serial-keys")),
    (
        "limit set tag:cpu --concurrency 2 --per-node 1 --rate 10/1m --burst 3 --json",
        Answer("put", "/limits/{subject}"),
    ),
    ("limit ls --json", Answer("get", "/limits")),
    ("limit show tag:cpu --json", Answer("get", "/limits/{subject}")),
    ("limit rm tag:cpu --json", Nothing),
    ("run --json -- sh -c 'echo said; echo loud >&2'", Lines("any")),
    ("job ls --state completed --json", Answer("get", "/jobs")),
    ("job logs {triggered} --json", Lines("LogLine")),
    ("job artifacts {triggered} --json", Answer("get", "/jobs/{id}/artifacts")),
    (
        "channel add hook --webhook https://hooks.test/x --secret env:HOOK --header x-team=ops --description d --json",
        Answer("post", "/channels"),
    ),
    ("channel add chat --slack env:SLACK_URL --disabled --json", Answer("post", "/channels")),
    (
        "channel add mail --email o@b.test --email t@b.test --smtp mail.test:2525 --tls implicit --from p@b.test \
         --username u --password env:PASSWORD --json",
        Answer("post", "/channels"),
    ),
    ("channel add deadman --ping http://ping.test/1 --json", Answer("post", "/channels")),
    ("channel ls --json", Answer("get", "/channels")),
    ("channel show hook --json", Answer("get", "/channels/{name}")),
    ("channel edit hook --secret env:NEW --secret env:HOOK --json", Answer("patch", "/channels/{name}")),
    ("channel test hook --no-wait --json =message", Answer("get", "/deliveries/{id}")),
    (
        "rule add night --on failures_in_a_row --failures 3 --schedule nightly --channel hook --then chat,mail:15m \
         --then chat:9x --quiet 22:00-07:00 --tz Europe/Berlin --quiet-day monday --wait 1s --group-by subject \
         --repeat-every 4h --tell-recovery false --json",
        Answer("post", "/rules"),
    ),
    ("rule add well --on all_well --every 1m --channel deadman --disabled --json", Answer("post", "/rules")),
    ("rule ls --json", Answer("get", "/rules")),
    ("rule show night --json", Answer("get", "/rules/{name}")),
    ("rule edit night --everywhere --no-quiet --no-repeat --disable --json", Answer("patch", "/rules/{name}")),
    ("alert ls --open --rule night --json", Answer("get", "/alerts")),
    ("delivery ls --channel hook --json", Answer("get", "/deliveries")),
    ("delivery show {message} --json", Answer("get", "/deliveries/{id}")),
    ("delivery resend {message} --json", Answer("post", "/deliveries/{id}/resend")),
    ("delivery drop {message} --json", Answer("post", "/deliveries/{id}/drop")),
    ("rule rm night --json", Nothing),
    ("channel edit chat --enable --json", Answer("patch", "/channels/{name}")),
    ("channel rm mail --json", Nothing),
    ("token add ci --owner ci --role operator --json =token", Answer("post", "/tokens")),
    ("token ls --json", Answer("get", "/tokens")),
    ("token revoke {token} --json", Nothing),
    (
        "grant add --account acme --graph flow:etl --graph flow:other --expires-at 2099-01-01T00:00:00Z --max-runs 5 \
         --rate 10/1m --burst 3 --json =grant",
        Answer("post", "/grants"),
    ),
    ("grant ls --json", Answer("get", "/grants")),
    ("grant show {grant} --json", Answer("get", "/grants/{id}")),
    ("schedule add graphic --every 1h --graph flow:etl --grant {grant} --paused --json", Answer("post", "/schedules")),
    ("graph ls --json", Answer("get", "/graphs")),
    ("billing add beta --json", Answer("post", "/billing/accounts")),
    ("billing ls --json", Answer("get", "/billing/accounts")),
    ("billing usage acme --from 2020-01-01T00:00:00Z --json", Answer("get", "/billing/accounts/{name}/usage")),
    ("grant revoke {grant} --json", Answer("post", "/grants/{id}/revoke")),
    ("status --json", Answer("get", "/stats")),
    ("node ls --all --json", Answer("get", "/nodes")),
    ("audit --json", Answer("get", "/audit")),
    ("doctor --json", Answer("get", "/doctor")),
    ("schedule rm once --json", Nothing),
    ("plan -f {manifest} --json", Answer("post", "/manifest/plan")),
    ("apply -f {manifest} --json", Answer("post", "/manifest/apply")),
    ("export --owner story --format json", Answer("get", "/manifest")),
];

/// Commands that ask no API, or need more than a store, and are tried elsewhere.
const WITHOUT_API: [&str; 23] = [
    "alert acknowledge",
    "alert show",
    "backup",
    "bench",
    "completions",
    "config",
    "cron explain",
    "cron next",
    "demo",
    "flow items",
    "flow steps",
    "graph run",
    "health",
    "import crontab",
    "import kubernetes",
    "import pg_cron",
    "import systemd",
    "man",
    "migrate",
    "move",
    "restore",
    "serve",
    "worker",
];

/// The words of a line, as a shell takes them apart.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut parts = line.split('\'');
    while let Some(plain) = parts.next() {
        words.extend(plain.split_whitespace().map(str::to_owned));
        words.extend(parts.next().map(str::to_owned));
    }
    words
}

/// What the story begins with, by name: days that are past, because history of before is not known for ever, and a file.
fn kept(folder: &TempDir) -> BTreeMap<String, String> {
    let ago = |days: i64| (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)).to_string();
    let manifest = folder.path().join("manifest.toml");
    let text = "owner = \"story\"\n[schedules.filed]\ncron = \"@daily\"\ntarget = { kind = \"task\", name = \"t\" }\n";
    std::fs::write(&manifest, text).unwrap();
    BTreeMap::from([
        ("three_days_ago".to_owned(), ago(3)),
        ("yesterday".to_owned(), ago(1)),
        ("manifest".to_owned(), manifest.to_str().unwrap().to_owned()),
    ])
}

/// Where the commands go to.
pub(crate) struct Place {
    arguments: Vec<String>,
    kept: BTreeMap<String, String>,
    _server: Option<Server>,
    _folder: TempDir,
}

impl Place {
    pub(crate) fn local(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = vec!["--database".to_owned(), world.url.clone()];
        Self { arguments, kept: kept(&folder), _server: None, _folder: folder }
    }

    pub(crate) fn remote(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_str().unwrap();
        let server = Server::on(&["--data", data, "--database", &world.url]);
        let token = std::fs::read_to_string(folder.path().join("admin.token")).unwrap();
        let arguments = ["--server", server.url(), "--token", token.trim()].map(str::to_owned).to_vec();
        Self { arguments, kept: kept(&folder), _server: Some(server), _folder: folder }
    }

    /// Runs a line of the story, and keeps the id that it printed.
    pub(crate) fn tell(&mut self, line: &str) -> Output {
        let mut arguments = Vec::new();
        let mut keep = None;
        for word in words(line) {
            match word.strip_prefix('=') {
                Some(name) => keep = Some(name.to_owned()),
                None => arguments
                    .push(self.kept.iter().fold(word, |word, (name, id)| word.replace(&format!("{{{name}}}"), id))),
            }
        }
        // Before what is behind `--`.
        let at = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        arguments.splice(at..at, self.arguments.clone());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = punctual(&arguments).output().unwrap();
        if let Some(name) = keep {
            let made: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            self.kept.insert(name, made["id"].as_str().unwrap_or_default().to_owned());
        }
        output
    }
}

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../openapi.json")).unwrap()
}

/// Checks a value against a schema of the document.
fn check(document: &Value, schema: &Value, value: &Value, line: &str) {
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::options().build(&whole).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{line}: {wrong:#?} in {value:#}");
}

pub(crate) fn tell_all(place: &mut Place) {
    let document = document();
    for (line, prints) in STORY {
        let output = place.tell(line);
        let (said, complaint) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{line}: {complaint}");
        match prints {
            Nothing => assert_eq!(said, "", "{line}"),
            Answer(method, path) | Created(method, path) => {
                let responses = &document["paths"][path][method]["responses"];
                let made = responses.get("201");
                let good = if matches!(prints, Created(..)) { made } else { responses.get("200").or(made) };
                let good = good.unwrap_or_else(|| panic!("{line} has no such answer"));
                let value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{line}: {error}: {said}"));
                check(&document, &good["content"]["application/json"]["schema"], &value, line);
            }
            Lines(schema) => {
                for text in said.lines() {
                    let value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"));
                    if *schema != "any" {
                        check(&document, &document["components"]["schemas"][schema], &value, line);
                    }
                }
            }
        }
    }
}

on_both_stores! {
    /// Every command in its own process, where no server is.
    async fn d03_every_command_works_in_its_own_process(world: &World) {
        let mut place = Place::local(world);
        tell_all(&mut place);
        // Documents go through to the letter.
        let shown = place.tell("job show {triggered} --json");
        assert!(String::from_utf8_lossy(&shown.stdout).contains(r#""input":{"n":12345678901234567890123}"#));
    }

    /// Every command to a server.
    async fn d03_every_command_works_over_http(world: &World) {
        tell_all(&mut Place::remote(world));
    }
}

/// The commands below one, as its help lists them.
fn commands(of: &[&str]) -> Vec<String> {
    let help = punctual(&[of, &["--help"]].concat()).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed =
        help.split_once("\nCommands:\n").map(|(_, rest)| rest.split("\n\n").next().unwrap()).unwrap_or_default();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn the_story_leaves_no_command_out() {
    let mut all = BTreeSet::new();
    for name in commands(&[]) {
        let below = commands(&[&name]);
        if below.is_empty() {
            all.insert(name.clone());
        }
        all.extend(below.into_iter().map(|inner| format!("{name} {inner}")));
    }
    assert!(all.len() > 40, "{all:?}");
    let told = |command: &String| {
        let begins = format!("{command} ");
        WITHOUT_API.contains(&command.as_str()) || STORY.iter().any(|(line, _)| line.starts_with(&begins))
    };
    let left_out: Vec<_> = all.iter().filter(|command| !told(command)).collect();
    assert_eq!(left_out, Vec::<&String>::new());
}

#[test]
fn a_server_is_found_through_its_folder_and_its_end_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let server = Server::on(&["--data", data]);
    let nodes = || {
        let listed = punctual(&["node", "ls", "--json", "--data", data]).output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed["items"].as_array().unwrap().len()
    };
    assert_eq!(nodes(), 1);
    // The audit log tells the two ways apart: a server's calls carry a token.
    let made = punctual(&["schedule", "add", "a", "--every", "1h", "--data", data, "--", "true"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    drop(server);
    assert!(folder.path().join("serve.json").exists(), "it was killed, and its file is still there");
    let made = punctual(&["schedule", "add", "b", "--every", "1h", "--data", data, "--", "true"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let audit = punctual(&["audit", "--json", "--data", data]).output().unwrap();
    let audit: Value = serde_json::from_slice(&audit.stdout).unwrap();
    let with_token: Vec<bool> =
        audit["items"].as_array().unwrap().iter().map(|row| row["token_id"].is_string()).collect();
    assert_eq!(with_token, [false, true]);
}

/// What goes wrong has a code of its own and says what to do.
#[test]
fn exit_codes_and_words_for_what_goes_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let server = Server::on(&["--data", data]);
    let url = server.url().to_owned();
    let table: &[(&[&str], i32, &str)] = &[
        (&["schedule", "show", "nobody", "--data", data], 3, "there is no schedule `nobody`"),
        (&["schedule", "show", "../../tokens", "--data", data], 3, "there is no schedule"),
        (&["job", "show", "x", "--data", data], 3, "there is no job"),
        (&["job", "add", "--data", data], 2, "nothing to do; give a command after `--`"),
        (&["job", "add", "--data", data, "--input", "{", "--", "true"], 2, "not JSON"),
        (&["schedule", "add", "s", "--cron", "61 * * * *", "--data", data, "--", "true"], 2, "61"),
        (
            &["schedule", "add", "s", "--cron", "@daily", "--tz", "Mars/Olympus", "--data", data, "--", "true"],
            2,
            "Mars/Olympus",
        ),
        (
            &["schedule", "add", "s", "--cron", "@daily", "--every", "1s", "--data", data, "--", "true"],
            2,
            "cannot be used with",
        ),
        (&["schedule", "edit", "s", "--data", data], 2, "nothing to change"),
        (&["why", "s", "yesterday", "--data", data], 2, "is no time"),
        (&["job", "ls", "--server", &url], 5, "--token"),
        (&["job", "ls", "--server", &url, "--token", "punctual_x_y"], 5, "PUNCTUAL_TOKEN"),
        (&["job", "ls", "--server", "localhost"], 2, "http://HOST:PORT"),
        (&["job", "ls", "--server", "http://127.0.0.1:1"], 6, "cannot be reached"),
        (&["jbo", "ls"], 2, "job"),
        (&["job", "ls", "--stat", "failed"], 2, "--state"),
        (&["run", "--data", data, "--", "sh", "-c", "exit 42"], 42, ""),
        (&["run", "--data", data, "--", "/no/such/program"], 8, "the job is failed"),
    ];
    for (arguments, code, words) in table {
        let output = punctual(arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {complaint}");
        assert!(complaint.contains(words), "{arguments:?}: {complaint}");
    }
    let none = punctual(&["schedule", "ls", "--json", "--data", data]).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&none.stdout).unwrap(), json!({ "items": [], "next_cursor": null }));
}

/// A server with a certificate of its own, and a command line that believes it.
#[test]
fn a_server_speaks_tls_and_refuses_to_be_public_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let authority = Authority::new();
    let issued = authority.issue("DNS:localhost,IP:127.0.0.1");
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let (certificate, key, believed) = (text(issued.certificate), text(issued.key), text(authority.certificate()));
    let data = path("data");
    let server = Server::on(&["--data", &data, "--tls-cert", &certificate, "--tls-key", &key]);
    let url = server.url();
    assert!(url.starts_with("https://"), "{url}");
    let token = std::fs::read_to_string(folder.path().join("data/admin.token")).unwrap();
    let listed = |believed: &str| {
        let mut command = punctual(&["node", "ls", "--json", "--server", url, "--token", token.trim()]);
        command.env("SSL_CERT_FILE", believed).output().unwrap()
    };
    let good = listed(&believed);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert_eq!(listed("/dev/null").status.code(), Some(6), "nobody vouches for it");
    for (args, words) in [
        (vec!["serve", "--listen", "0.0.0.0:0"], "--allow-plain-http"),
        (vec!["serve", "--tls-cert", &certificate], "--tls-key"),
        (vec!["serve", "--tls-cert", &key, "--tls-key", &key], "PEM"),
        (vec!["serve", "--listen", server.url().trim_start_matches("https://")], "choose another address"),
    ] {
        let other = path("other");
        let refused = punctual(&[args.as_slice(), &["--data", &other]].concat()).output().unwrap();
        assert!(!refused.status.success());
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(complaint.contains(words), "{args:?}: {complaint}");
    }
}

/// A reader that goes away ends a command quietly, and a list that is watched is printed anew.
#[test]
fn a_list_can_be_watched_and_cut_off() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let made = punctual(&["schedule", "add", "tick", "--every", "1h", "--data", data, "--", "true"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = punctual(&["schedule", "ls", "-q", "--watch=100ms", "--data", data]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    assert_eq!(seen, ["tick"; 3]);
    drop(lines);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}
