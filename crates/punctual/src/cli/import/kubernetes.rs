//! `CronJob` manifests of Kubernetes.

mod pod;

use std::collections::BTreeSet;

use clap::ValueEnum;
use punctual_core::duration::{format_duration, parse_duration};
use serde_json::{Map, Value, json};

use super::reading::{Draft, Kind, Place, Reading, quoted};
use crate::cli::document::{Document, Format, member};

/// What a schedule runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunAs {
    /// `kubectl create job --from=cronjob/NAME`, and wait for it
    #[default]
    Kubectl,
    /// The container's own command, on the worker
    Command,
}

/// What the manifests alone do not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct KubernetesOptions {
    pub(crate) run_as: RunAs,
    /// The zone of the cluster's controller.
    pub(crate) timezone: Option<String>,
}

/// Makes a Job from a `CronJob`, waits for its end, shows what it wrote, and takes it away when it is told to stop.
///
/// `$1` is what the Job's name begins with, `$2` the `CronJob`; what is left says in which namespace.
const KUBECTL: &str = r#"job="$1-${PUNCTUAL_JOB_ID##*-}"; from="cronjob/$2"; end=; shift 2
what='{.metadata.name} {.status.conditions[?(@.status=="True")].type}'
trap 'kill "$!" 2>&-; kubectl "$@" delete job "$job" --wait=false; exit 143' TERM INT
kubectl "$@" create job "$job" --from="$from" || exit
until [ -n "$end" ]; do
  sleep 2 & wait $!
  found=$(kubectl "$@" get job "$job" --ignore-not-found -o jsonpath="$what") || continue
  case " $found " in
    "  ") echo "the Job $job is gone, and how it ended is not known: a history limit of 0, ttlSecondsAfterFinished, or \
somebody removed it" >&2; exit 1 ;;
    *" Complete "*) end=0 ;;
    *" Failed "*) end=1 ;;
  esac
done
kubectl "$@" logs "job/$job" --all-containers
exit "$end""#;

/// Reads one file: documents of YAML, or JSON; lists of them as well.
pub(super) fn read(file: &str, text: &str, options: &KubernetesOptions) -> Reading {
    let mut reading = Reading::default();
    let format = if text.trim_start().starts_with(['{', '[']) { Format::Json } else { Format::Yaml };
    let documents = match Document::parse(format, text) {
        Ok(documents) => documents,
        Err(broken) => {
            let line = broken.place.map_or(1, |place| place.line);
            reading.fault(Place::new(file, line), broken.problem);
            return reading;
        }
    };
    for document in &documents {
        Import { file, document, options, is_yaml: format == Format::Yaml, reading: &mut reading }.value("");
    }
    reading
}

struct Import<'a> {
    file: &'a str,
    document: &'a Document,
    options: &'a KubernetesOptions,
    is_yaml: bool,
    reading: &'a mut Reading,
}

/// A `CronJob` as it is read: its object, and the pointers to its parts.
struct Source<'a> {
    import: &'a Import<'a>,
    pointer: String,
}

impl Source<'_> {
    fn at(&self, path: &str) -> &Value {
        self.import.document.value.pointer(&format!("{}{path}", self.pointer)).unwrap_or(&Value::Null)
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.at(path).as_str().filter(|text| !text.is_empty())
    }

    fn line(&self, path: &str) -> usize {
        self.import.line(&format!("{}{path}", self.pointer))
    }
}

impl Import<'_> {
    fn line(&self, pointer: &str) -> usize {
        self.document.place_of(pointer).map_or(1, |place| place.line)
    }

    fn place(&self, pointer: &str) -> Place {
        Place::new(self.file, self.line(pointer))
    }

    /// An object of the cluster, or a list of them.
    fn value(&mut self, pointer: &str) {
        let document = self.document;
        let Some(value) = document.value.pointer(pointer) else { return };
        if let Value::Array(items) = value {
            return (0..items.len()).for_each(|number| self.value(&format!("{pointer}/{number}")));
        }
        let kind = value["kind"].as_str().unwrap_or_default();
        match (kind, value["apiVersion"].as_str().unwrap_or_default()) {
            ("CronJob", "batch/v1" | "batch/v1beta1") => self.cron_job(pointer),
            ("CronJob", version) => {
                let problem = format!("a CronJob of {} is not known; use batch/v1", quoted(version));
                self.reading.fault(self.place(pointer), problem);
            }
            (list, _) if list.ends_with("List") => self.value(&format!("{pointer}/items")),
            ("", _) => self.reading.fault(self.place(pointer), "is no object of Kubernetes: it has no `kind`"),
            (kind, _) => {
                let what = format!("a {} is no CronJob, and is not imported", quoted(kind));
                self.reading.remark(self.place(pointer), Kind::Note, what, "nothing");
            }
        }
    }

    fn cron_job(&mut self, pointer: &str) {
        let place = self.place(pointer);
        let made = {
            let source = Source { import: self, pointer: pointer.to_owned() };
            draft(&source, place.clone())
        };
        match made {
            Ok(draft) => self.reading.drafts.push(draft),
            Err((Some(kind), line, problem, remedy)) => {
                self.reading.remark(Place { line, ..place }, kind, problem, remedy);
            }
            Err((None, line, problem, _)) => self.reading.fault(Place { line, ..place }, problem),
        }
    }
}

/// Why there is no schedule: a difference, or a fault of the source.
type Refused = (Option<Kind>, usize, String, &'static str);

fn draft(source: &Source<'_>, place: Place) -> Result<Draft, Refused> {
    let name = source.text("/metadata/name");
    let name = name.ok_or_else(|| (None, place.line, "the CronJob has no metadata.name".to_owned(), ""))?;
    let namespace = source.text("/metadata/namespace");
    for (path, text) in [("/metadata/name", Some(name)), ("/metadata/namespace", namespace)] {
        if let Some(text) = text.filter(|text| !is_name(text)) {
            let problem = format!("{} is no name that Kubernetes takes", quoted(text));
            return Err((None, source.line(path), problem, ""));
        }
    }
    let base = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    let mut draft = Draft::new(base, place);
    draft.identity = format!("{namespace:?} {name}");
    timing(source, &mut draft)?;
    policies(source, &mut draft)?;
    history(source, &mut draft)?;
    labels(source, &mut draft);
    match source.import.options.run_as {
        RunAs::Kubectl => kubectl(source, name, namespace, &mut draft),
        RunAs::Command => pod::command(source, &mut draft)?,
    }
    name_the_rest(source, &mut draft);
    Ok(draft)
}

/// A name of the cluster: it can stand in a command as it is.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253
        && text.chars().all(|c| plain(c) || matches!(c, '-' | '.'))
        && text.starts_with(plain)
        && text.ends_with(plain)
}

fn labels(source: &Source<'_>, draft: &mut Draft) {
    const MOST: usize = 64;
    let labels = source.at("/metadata/labels").as_object().cloned().unwrap_or_default();
    let given = labels.len();
    let kept: Map<String, Value> = labels.into_iter().filter(|(_, value)| value.is_string()).take(MOST).collect();
    if kept.len() < given {
        let line = source.line("/metadata/labels");
        let what = format!("{} of {given} labels are no texts, or come after the first {MOST}", given - kept.len());
        draft.remark_at(line, Kind::Lost, what, "keep those that are looked for");
    }
    if !kept.is_empty() {
        draft.put("labels", kept);
    }
}

fn timing(source: &Source<'_>, draft: &mut Draft) -> Result<(), Refused> {
    let line = source.line("/spec/schedule");
    let wrong = |problem: String| (None, line, problem, "");
    let schedule = source.text("/spec/schedule").ok_or_else(|| wrong("spec.schedule is missing".to_owned()))?;
    let (prefix, times) = zone_prefix(schedule.trim());
    let said = source.text("/spec/timeZone");
    if !matches!(source.at("/spec/timeZone"), Value::Null | Value::String(_)) {
        return Err((None, source.line("/spec/timeZone"), "timeZone is no text".to_owned(), ""));
    }
    let timezone = match (said, prefix, &source.import.options.timezone) {
        (Some(zone), ..) => zone.to_owned(),
        (None, Some(zone), _) => {
            let what = format!("the zone {zone} stands before the times, which Kubernetes does not promise to read");
            draft.remark_at(line, Kind::Note, what, "nothing; it is the schedule's `timezone` here");
            zone.to_owned()
        }
        (None, None, given) => {
            let zone = given.clone().unwrap_or_else(|| "UTC".to_owned());
            let what = format!("without timeZone the zone is that of the cluster's controller; it is read as {zone}");
            draft.remark_at(line, Kind::Note, what, "say --tz if the controller is in another one");
            zone
        }
    };
    if let Some(period) = times.strip_prefix("@every ") {
        let period = parse_duration(period.trim()).map_err(|error| wrong(format!("@every: {error}")))?;
        draft.put("every", format_duration(period));
        let what = "@every counts from the last start; here from slot to slot, beginning when the schedule is made";
        draft.remark_at(line, Kind::Differs, what, "nothing, or write a cron expression");
        return Ok(());
    }
    draft.put("cron", cron_of(times).map_err(|problem| wrong(format!("{}: {problem}", quoted(times))))?);
    draft.put("timezone", timezone);
    // A local time that a clock change leaves out is passed over there, and one that comes twice comes twice.
    draft.put("dst_gap", "skip");
    draft.put("dst_overlap", "both");
    Ok(())
}

fn zone_prefix(schedule: &str) -> (Option<&str>, &str) {
    let behind = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ="));
    match behind.and_then(|behind| behind.split_once(char::is_whitespace)) {
        Some((zone, times)) => (Some(zone), times.trim()),
        None => (None, schedule),
    }
}

/// The expression in our words. There a stepped star in a day field counts as a list of days, so that either field is
/// enough; here a field that starts with `*` asks for both, so it is written as a range. A step that begins with a day
/// of the week ends with Saturday there, and here with the Sunday after it.
fn cron_of(times: &str) -> Result<String, String> {
    if times.starts_with('@') {
        return Ok(times.to_owned());
    }
    let fields: Vec<&str> = times.split_whitespace().collect();
    let [minute, hour, dom, month, dow] = fields[..] else {
        return Err(format!("has {} fields; Kubernetes takes five", fields.len()));
    };
    // A step of one keeps the star, however it is written.
    let is_one =
        |step: &str| step.is_empty() || step.strip_prefix('/').and_then(|step| step.parse().ok()) == Some(1_u32);
    let is_star = |field: &str| field.split(',').any(|item| item.strip_prefix(['*', '?']).is_some_and(is_one));
    let spelled = |field: &str, range: &str, last: &str| {
        let item = |item: &str| match (item.strip_prefix(['*', '?']), item.split_once('/')) {
            (Some(step), _) if step.starts_with('/') => format!("{range}{step}"),
            (None, Some((first, step))) if !first.contains('-') => format!("{}-{last}/{step}", weekday(first)),
            _ => item.to_owned(),
        };
        if is_star(field) { "*".to_owned() } else { field.split(',').map(item).collect::<Vec<_>>().join(",") }
    };
    let (dom, dow) = (spelled(dom, "1-31", "31"), spelled(dow, "0-6", "6"));
    Ok(format!("{minute} {hour} {dom} {month} {dow}"))
}

/// A weekday by its number, because a range ends with one.
fn weekday(word: &str) -> String {
    const NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let number = NAMES.iter().position(|name| name.eq_ignore_ascii_case(word));
    number.map_or_else(|| word.to_owned(), |number| number.to_string())
}

/// A whole number that is there, or nothing; another kind of value is refused there as well.
fn whole(source: &Source<'_>, path: &str) -> Result<Option<u64>, Refused> {
    match source.at(path) {
        Value::Null => Ok(None),
        value => value.as_u64().map(Some).ok_or_else(|| {
            let name = path.rsplit('/').next().unwrap_or_default();
            (None, source.line(path), format!("{name} is {value}, and must be a whole number, 0 or more"), "")
        }),
    }
}

/// A truth value. Kubernetes reads the words of YAML 1.1 as well.
fn is_true(source: &Source<'_>, path: &str) -> Result<bool, Refused> {
    let value = source.at(path);
    let word = value.as_str().filter(|_| source.import.is_yaml).map(str::to_ascii_lowercase);
    match (value, word.as_deref()) {
        (Value::Null, _) => Ok(false),
        (Value::Bool(value), _) => Ok(*value),
        (_, Some("yes" | "y" | "on" | "true")) => Ok(true),
        (_, Some("no" | "n" | "off" | "false")) => Ok(false),
        _ => {
            let name = path.rsplit('/').next().unwrap_or_default();
            Err((None, source.line(path), format!("{name} is {value}, and must be true or false"), ""))
        }
    }
}

fn policies(source: &Source<'_>, draft: &mut Draft) -> Result<(), Refused> {
    let missed = match whole(source, "/spec/startingDeadlineSeconds")? {
        Some(seconds) => {
            let line = source.line("/spec/startingDeadlineSeconds");
            let what = "startingDeadlineSeconds: the latest missed slot is made up for within it";
            draft.remark_at(line, Kind::Note, what, "nothing; it is `missed.window`");
            json!({ "policy": "once", "window": format!("{}s", seconds.max(1)) })
        }
        None => json!("once"),
    };
    draft.put("missed", missed);
    let line = source.line("/spec/concurrencyPolicy");
    let overlap = match source.at("/spec/concurrencyPolicy") {
        Value::Null => "allow",
        Value::String(word) if word == "Allow" || word.is_empty() => "allow",
        Value::String(word) if word == "Replace" => "replace",
        Value::String(word) if word == "Forbid" => {
            let what = "concurrencyPolicy Forbid: a slot that finds a run alive is skipped for good; Kubernetes may \
                        start it when that run ends, within startingDeadlineSeconds";
            draft.remark_at(line, Kind::Differs, what, "`overlap = \"queue_one\"` lets one wait");
            "forbid"
        }
        other => {
            let problem = format!("concurrencyPolicy is {other}; Kubernetes takes Allow, Forbid and Replace");
            return Err((None, line, problem, ""));
        }
    };
    draft.put("overlap", overlap);
    if is_true(source, "/spec/suspend")? {
        draft.put("paused", true);
        let what = "the CronJob is suspended, so the schedule is paused. If it is suspended because Punctual runs it, \
                    importing it again pauses what runs";
        let remedy = "remove `paused` from the manifest then, or import what was written before it was suspended";
        draft.remark_at(source.line("/spec/suspend"), Kind::Note, what, remedy);
    }
    Ok(())
}

/// How many Jobs the cluster keeps. It keeps those that kubectl makes by the same rules.
fn history(source: &Source<'_>, draft: &mut Draft) -> Result<(), Refused> {
    const TTL: &str = "/spec/jobTemplate/spec/ttlSecondsAfterFinished";
    let in_cluster = source.import.options.run_as == RunAs::Kubectl;
    for limit in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        let path = member("/spec", limit);
        let Some(count) = whole(source, &path)? else { continue };
        let line = source.line(&path);
        if in_cluster && count > 0 {
            let what = format!("{limit} {count} goes on to hold in the cluster, for the Jobs that are made there");
            draft.remark_at(line, Kind::Note, what, "what is kept of runs here is for the worker's `--keep-…` to say");
        } else if in_cluster {
            let what = format!("{limit} 0: a Job is gone when it ends, so how it ended is not seen and the run fails");
            draft.remark_at(line, Kind::Differs, what, "set it to 1 or more in the cluster");
        } else {
            let what = format!("{limit} {count}: history is kept by time, and the latest runs of each schedule");
            draft.remark_at(line, Kind::Lost, what, "`--keep-runs`, `--keep-failed` and `--keep-last` of the worker");
        }
    }
    if let Some(seconds) = whole(source, TTL)?.filter(|seconds| in_cluster && *seconds < 60) {
        let what =
            format!("ttlSecondsAfterFinished {seconds}: a Job may be gone before its end is seen; the run fails");
        draft.remark_at(source.line(TTL), Kind::Differs, what, "set it to a minute or more in the cluster");
    }
    Ok(())
}

/// The Job is made in the cluster, with everything that the template says.
fn kubectl(source: &Source<'_>, name: &str, namespace: Option<&str>, draft: &mut Draft) {
    let begin: String = name.chars().take(50).collect();
    let mut argv = vec![KUBECTL, begin.trim_end_matches(['-', '.']), name];
    if let Some(namespace) = namespace {
        argv.extend(["-n", namespace]);
    }
    draft.put("target", json!({ "kind": "command", "argv": argv, "shell": true, "input": "none" }));
    // The Job has its own attempts and its own deadline.
    draft.put("retry", json!({ "max_attempts": 1, "max_interruptions": 0 }));
    draft.put("timeout", "none");
    let what = "it makes a Job from the CronJob in the cluster, which stays there and must not fire by itself";
    let flag = namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let remedy = format!(
        "`kubectl patch cronjob {name}{flag} -p '{{\"spec\":{{\"suspend\":true}}}}'` when it is applied; \
                          the worker needs kubectl and the right to make, read and delete Jobs"
    );
    draft.remark(Kind::Note, what, remedy);
    let what = "a command sees of the worker's variables only PATH, HOME, LANG, LC_ALL and TZ, so kubectl finds the \
                cluster by $HOME/.kube/config";
    let remedy = "in a pod, or with KUBECONFIG, add to the target's `env` KUBERNETES_SERVICE_HOST, \
                  KUBERNETES_SERVICE_PORT or KUBECONFIG, each as { secret = \"env:NAME\" }";
    draft.remark(Kind::Note, what, remedy);
    let line = source.line("/spec/jobTemplate");
    let what =
        "jobTemplate stays in the cluster: containers, attempts (backoffLimit) and deadline are those of the Job";
    draft.remark_at(line, Kind::Note, what, "nothing");
}

/// Fields of the `CronJob` itself that have no counterpart, by name.
fn name_the_rest(source: &Source<'_>, draft: &mut Draft) {
    const SPEC: [&str; 8] = [
        "schedule",
        "timeZone",
        "startingDeadlineSeconds",
        "concurrencyPolicy",
        "suspend",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "jobTemplate",
    ];
    // The cluster itself writes these.
    const METADATA: [&str; 10] = [
        "name",
        "namespace",
        "labels",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "generateName",
    ];
    let mut rest = BTreeSet::new();
    for (path, known) in [("/spec", &SPEC[..]), ("/metadata", &METADATA[..])] {
        let keys = source.at(path).as_object().into_iter().flat_map(Map::keys);
        rest.extend(keys.filter(|key| !known.contains(&key.as_str())).map(|key| format!("{}.{key}", &path[1..])));
    }
    if !rest.is_empty() {
        let names = rest.into_iter().collect::<Vec<_>>().join(", ");
        let what = format!("fields without a counterpart: {names}");
        draft.remark(Kind::Lost, what, "labels are kept, annotations and owners are not");
    }
}
