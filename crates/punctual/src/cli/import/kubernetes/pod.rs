//! The container's own command, on the worker: what of a pod is carried over, and everything that is not, by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::reading::{Draft, Kind, quoted};
use super::{Refused, Source};

const JOB: &str = "/spec/jobTemplate/spec";
const POD: &str = "/spec/jobTemplate/spec/template/spec";
const CONTAINER: &str = "/spec/jobTemplate/spec/template/spec/containers/0";

/// Puts the first container's command into the schedule.
pub(super) fn command(source: &Source<'_>, draft: &mut Draft) -> Result<(), Refused> {
    let line = source.line(CONTAINER);
    let words = |path: &str| -> Vec<String> {
        let list = source.at(&format!("{CONTAINER}{path}")).as_array().cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (program, arguments) = (words("/command"), words("/args"));
    if program.is_empty() {
        let what = "the container has no `command`: what its image starts is not written in the manifest".to_owned();
        return Err((Some(Kind::LeftOut), line, what, "write the command into the manifest, or use --run-as kubectl"));
    }
    let env = environment(source, draft);
    let argv: Vec<String> = program.into_iter().chain(arguments).map(|word| expanded(&word, &env)).collect();
    let mut target = json!({ "kind": "command", "argv": argv, "input": "none" });
    if let Some(folder) = source.text(&format!("{CONTAINER}/workingDir")) {
        target["cwd"] = json!(folder);
    }
    if !env.is_empty() {
        target["env"] = Value::Object(env);
    }
    draft.put("target", target);
    attempts(source, draft);
    let image = source.text(&format!("{CONTAINER}/image")).unwrap_or("none");
    let what = format!("the command runs on the worker and not in the image {}", quoted(image));
    let path = format!("{CONTAINER}/image");
    draft.remark_at(source.line(&path), Kind::Lost, what, "install what it needs there, or use --run-as kubectl");
    others(source, draft);
    Ok(())
}

/// `backoffLimit` and `activeDeadlineSeconds`, as far as a schedule knows them.
fn attempts(source: &Source<'_>, draft: &mut Draft) {
    let limit = source.at(&format!("{JOB}/backoffLimit")).as_u64().unwrap_or(6).min(999);
    let retry = json!({ "max_attempts": limit + 1, "backoff": "exponential", "base": "10s", "max": "6m" });
    draft.put("retry", retry);
    let line = source.line(&format!("{JOB}/backoffLimit"));
    let what = format!("backoffLimit {limit}: {} attempts, 10s apart and twice as long each time, up to 6m", limit + 1);
    draft.remark_at(line, Kind::Note, what, "set `retry`");
    draft.put("timeout", "none");
    if let Some(seconds) = source.at(&format!("{JOB}/activeDeadlineSeconds")).as_u64().filter(|seconds| *seconds > 0) {
        draft.put("timeout", format!("{seconds}s"));
        let line = source.line(&format!("{JOB}/activeDeadlineSeconds"));
        let what = format!("activeDeadlineSeconds {seconds} is for all attempts together; here each has as long");
        draft.remark_at(line, Kind::Differs, what, "set `timeout`, and `retry.max_age` for all of them");
    }
}

fn environment(source: &Source<'_>, draft: &mut Draft) -> Map<String, Value> {
    let mut env = Map::new();
    let list = source.at(&format!("{CONTAINER}/env")).as_array().cloned().unwrap_or_default();
    for (number, variable) in list.iter().enumerate() {
        let line = source.line(&format!("{CONTAINER}/env/{number}"));
        let name = variable["name"].as_str().unwrap_or_default();
        if name.is_empty() || name.starts_with("PUNCTUAL_") {
            draft.remark_at(line, Kind::Lost, format!("the variable {} cannot be set here", quoted(name)), "rename it");
        } else if let Some(value) = variable["value"].as_str() {
            let value = expanded(value, &env);
            env.insert(name.to_owned(), json!(value));
        } else if variable["valueFrom"]["secretKeyRef"].is_object() {
            env.insert(name.to_owned(), json!({ "secret": format!("env:{name}") }));
            let what = format!("{name} comes from a Secret of the cluster; here from the worker's own variable {name}");
            draft.remark_at(
                line,
                Kind::Differs,
                what,
                "give the worker that variable, or write { secret = \"file:…\" }",
            );
        } else if variable["valueFrom"].is_object() {
            let kinds = variable["valueFrom"].as_object().into_iter().flat_map(Map::keys);
            let kind = kinds.cloned().collect::<Vec<_>>().join(", ");
            let what = format!("{name} comes from the cluster ({kind}), and is not set");
            draft.remark_at(line, Kind::Lost, what, "write its value into the target's `env`");
        } else {
            env.insert(name.to_owned(), json!(""));
        }
    }
    env
}

/// `$(NAME)` is replaced by the variable, `$$(NAME)` is not.
fn expanded(word: &str, env: &Map<String, Value>) -> String {
    let mut filled = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('$') {
            filled.push('$');
            rest = behind;
            continue;
        }
        let named = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        match named.and_then(|(name, behind)| Some((env.get(name)?.as_str()?, behind))) {
            Some((value, behind)) => {
                filled.push_str(value);
                rest = behind;
            }
            None => filled.push('$'),
        }
    }
    filled.push_str(rest);
    filled
}

/// Everything else of the Job, the pod and its containers.
fn others(source: &Source<'_>, draft: &mut Draft) {
    let containers = source.at(&format!("{POD}/containers")).as_array().map_or(0, Vec::len);
    if containers > 1 {
        let line = source.line(&format!("{POD}/containers/1"));
        let what = format!("{} more containers beside the first are not run", containers - 1);
        draft.remark_at(line, Kind::Lost, what, "make schedules of them, or use --run-as kubectl");
    }
    let init = source.at(&format!("{POD}/initContainers")).as_array().map_or(0, Vec::len);
    if init > 0 {
        let line = source.line(&format!("{POD}/initContainers"));
        draft.remark_at(line, Kind::Lost, format!("{init} init containers are not run"), "make a flow of the steps");
    }
    let known: [(&str, &str, &[&str]); 4] = [
        (JOB, "job", &["backoffLimit", "activeDeadlineSeconds", "template"]),
        ("/spec/jobTemplate/spec/template", "template", &["spec", "metadata"]),
        (POD, "pod", &["containers", "initContainers"]),
        (CONTAINER, "container", &["name", "image", "command", "args", "env", "workingDir"]),
    ];
    let mut lost = BTreeSet::new();
    for (path, of, known) in known {
        let keys = source.at(path).as_object().into_iter().flat_map(Map::keys);
        lost.extend(keys.filter(|key| !known.contains(&key.as_str())).map(|key| format!("{of}.{key}")));
    }
    if !lost.is_empty() {
        let names = lost.into_iter().collect::<Vec<_>>().join(", ");
        let remedy = "look at each of them; --run-as kubectl keeps all";
        draft.remark_at(source.line(JOB), Kind::Lost, format!("fields without a counterpart: {names}"), remedy);
    }
}
