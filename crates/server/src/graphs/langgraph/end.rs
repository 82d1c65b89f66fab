//! How a run at a LangGraph server ended, in our words: its state, its failure, and what it used.

use super::Run;
use punctual_core::graph::{GraphEnd, GraphRun, Unknown, Used};
use punctual_core::json::{JSON_MAX_BYTES, Json};
use punctual_core::run::ErrorCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A thread as the server tells of it when its run has ended.
#[derive(Debug, Deserialize)]
pub(super) struct Thread {
    #[serde(default)]
    status: String,
    /// The final state, as it is written.
    #[serde(default)]
    values: Option<Box<RawValue>>,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    interrupts: Value,
}

/// What a run and its thread say of its end.
pub(super) fn judge(run: &GraphRun, ended: &Run, thread: &Thread) -> Result<GraphEnd, Unknown> {
    let failure = failure(ended, thread)?;
    let state = thread.values.as_deref().map_or("null", RawValue::get);
    if state.len() > JSON_MAX_BYTES {
        return Ok(of_large_state(run, ended));
    }
    let output = thread.values.as_deref().map(Json::from_output).transpose();
    let output = output.map_err(|error| Unknown(format!("the final state is not understood: {error}")))?;
    let used = used(run, ended, &serde_json::from_str(state).unwrap_or_default());
    Ok(GraphEnd { failure, output, references: references(run, Some(ended)), used })
}

/// A run that was done, but whose state is more than anybody keeps.
pub(super) fn of_large_state(run: &GraphRun, ended: &Run) -> GraphEnd {
    let words = format!("the final state is larger than {JSON_MAX_BYTES} bytes; let the graph return less");
    let failure = Some((ErrorCode::OutputTooLarge, words));
    GraphEnd { failure, output: None, references: references(run, Some(ended)), used: used(run, ended, &Value::Null) }
}

/// The end of something that was never begun, and costs nothing.
pub(super) fn without_run(run: &GraphRun, code: ErrorCode, words: String) -> GraphEnd {
    GraphEnd { failure: Some((code, words)), output: None, references: references(run, None), used: Vec::new() }
}

fn failure(ended: &Run, thread: &Thread) -> Result<Option<(ErrorCode, String)>, Unknown> {
    match ended.status.as_str() {
        // For LangGraph a graph that asks a person has done well so far; here there is nobody to ask.
        "success" if thread.status == "interrupted" => {
            let asked = thread.interrupts.as_object().and_then(|it| it.values().next()).map(|it| &it[0]["value"]);
            let asked = asked.map(|it| format!(" ({it})")).unwrap_or_default();
            let words = format!("the graph waits for an answer{asked}, and nobody is there to give one");
            Ok(Some((ErrorCode::TargetError, words)))
        }
        "success" => Ok(None),
        "error" => Ok(Some((ErrorCode::TargetError, error_words(&thread.error)))),
        "timeout" => Ok(Some((ErrorCode::Timeout, "the run took longer than its server allows".to_owned()))),
        "interrupted" => Ok(Some((ErrorCode::Cancelled, "the run was stopped at its server".to_owned()))),
        other => Err(Unknown(format!("the LangGraph server says that the run is `{other}`"))),
    }
}

fn error_words(error: &Value) -> String {
    let kind = error["error"].as_str();
    let message = error["message"].as_str().or_else(|| error.as_str());
    match (kind, message) {
        (Some(kind), Some(message)) => format!("the graph failed: {kind}: {message}"),
        (None, Some(words)) | (Some(words), None) => format!("the graph failed: {words}"),
        (None, None) => "the graph failed; its server says no more".to_owned(),
    }
}

fn references(run: &GraphRun, ended: Option<&Run>) -> BTreeMap<String, String> {
    let mut references = BTreeMap::from([("trace_id".to_owned(), run.trace_id.clone())]);
    if let Some(ended) = ended {
        references.insert("thread_id".to_owned(), run.run_id.to_string());
        references.insert("langgraph_run_id".to_owned(), ended.id.to_string());
    }
    references
}

/// One run, and the tokens that models were asked for, where the graph tells of them.
fn used(run: &GraphRun, ended: &Run, state: &Value) -> Vec<Used> {
    let mut used = vec![Used { unit: "run".to_owned(), quantity: 1 }];
    let given: Value = serde_json::from_str(run.input.as_str()).unwrap_or_default();
    for (unit, field) in [("input_token", "input_tokens"), ("output_token", "output_tokens")] {
        let noted = tokens(&ended.metadata, field);
        // What earlier messages cost was paid when they were made.
        let quantity = if noted > 0 { noted } else { tokens(state, field).saturating_sub(tokens(&given, field)) };
        if quantity > 0 {
            used.push(Used { unit: unit.to_owned(), quantity });
        }
    }
    used
}

/// What `usage_metadata` says, of the whole and of each message.
fn tokens(state: &Value, field: &str) -> u64 {
    let of = |it: &Value| it["usage_metadata"][field].as_u64().unwrap_or(0);
    let messages = state["messages"].as_array().into_iter().flatten().map(of);
    messages.fold(of(state), u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::id::{GrantId, GraphRunId};
    use serde_json::json;
    use uuid::Uuid;

    fn run(input: &str) -> GraphRun {
        GraphRun {
            run_id: GraphRunId(Uuid::from_u128(1)),
            graph: "langgraph:echo".parse().unwrap(),
            input: Json::parse("input", input).unwrap(),
            virtual_key: "vk".to_owned(),
            trace_id: "0".repeat(32),
            grant_id: GrantId(Uuid::from_u128(2)),
            owner: "somebody".to_owned(),
        }
    }

    fn ended(status: &str) -> Run {
        let run = json!({ "run_id": Uuid::from_u128(3), "status": status });
        serde_json::from_value(run).unwrap()
    }

    fn end(status: &str, thread: &Value) -> GraphEnd {
        let thread: Thread = serde_json::from_str(&thread.to_string()).unwrap();
        judge(&run("{}"), &ended(status), &thread).unwrap()
    }

    #[test]
    fn a20_every_end_has_its_code() {
        let idle = json!({ "status": "idle", "values": { "n": 1 } });
        assert_eq!(end("success", &idle).failure, None);
        assert_eq!(end("timeout", &idle).failure.unwrap().0, ErrorCode::Timeout);
        assert_eq!(end("interrupted", &idle).failure.unwrap().0, ErrorCode::Cancelled);
        let failed = json!({ "status": "error", "error": { "error": "ValueError", "message": "no" } });
        let (code, words) = end("error", &failed).failure.unwrap();
        assert_eq!((code, words.as_str()), (ErrorCode::TargetError, "the graph failed: ValueError: no"));
        let asks = json!({ "status": "interrupted", "interrupts": { "a": [{ "value": "may I?" }] } });
        let (code, words) = end("success", &asks).failure.unwrap();
        assert!(code == ErrorCode::TargetError && words.contains("may I?"), "{words}");
        let thread: Thread = serde_json::from_str("{}").unwrap();
        assert!(judge(&run("{}"), &ended("dreaming"), &thread).is_err(), "what is not known is not decided");
    }

    #[test]
    fn the_final_state_is_kept_as_it_is_written_unless_it_is_too_large() {
        let thread: Thread = serde_json::from_str(r#"{"values":{"b":12345678901234567890123,"a":"\u0000"}}"#).unwrap();
        let output = judge(&run("{}"), &ended("success"), &thread).unwrap().output.unwrap();
        assert_eq!(output.as_str(), r#"{"b":12345678901234567890123,"a":"\ufffd"}"#);
        let large = end("success", &json!({ "values": "x".repeat(JSON_MAX_BYTES) }));
        assert_eq!(large.failure.unwrap().0, ErrorCode::OutputTooLarge);
        assert_eq!(large.used.len(), 1, "it was done all the same");
    }

    #[test]
    fn a18_tokens_are_counted_once_and_not_those_of_the_input() {
        let said = json!({ "usage_metadata": { "input_tokens": 10, "output_tokens": 2 } });
        let state = json!({ "messages": [said, said, { "content": "no cost" }] });
        let input = json!({ "messages": [said] }).to_string();
        let used = |run: &GraphRun, ended: &Run| -> Vec<(String, u64)> {
            super::used(run, ended, &state).into_iter().map(|it| (it.unit, it.quantity)).collect()
        };
        let units = |one, two| vec![("run".into(), 1), ("input_token".into(), one), ("output_token".into(), two)];
        assert_eq!(used(&run(&input), &ended("success")), units(10, 2));
        let noted = Run { metadata: said, ..ended("success") };
        assert_eq!(used(&run("{}"), &noted), units(10, 2));
    }
}
