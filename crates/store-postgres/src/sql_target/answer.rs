//! What a function answered, judged by the contract of B02.

use punctual_core::execute::RunContext;
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;
use serde::Deserialize;

/// What must be in an answer; what else is in it is kept as well.
#[derive(Deserialize)]
struct Answer {
    success: bool,
    #[serde(default)]
    message: Option<String>,
}

/// How the run ends whose function answered with this JSON text; `None` stands for SQL's null.
pub(super) fn judge(run: &RunContext, text: Option<&str>) -> FinishedRun {
    const CONTRACT: &str = r#"it must answer {"success": true or false, "message": "…"}"#;
    let bad = |problem: String| run.failed(ErrorCode::BadOutput, format!("{problem}; {CONTRACT}"));
    let Some(text) = text else { return bad("the function answered null".to_owned()) };
    let output = match Json::parse("answer", text) {
        Ok(output) => output,
        Err(error) => return run.failed(ErrorCode::BadOutput, error.to_string()),
    };
    let answer: Answer = match output.to() {
        Ok(answer) => answer,
        Err(error) => {
            let end = bad(format!("the function's answer cannot be understood: {error}"));
            return FinishedRun { output: Some(output), ..end };
        }
    };
    if answer.success {
        return run.completed(Some(output));
    }
    let words = answer.message.filter(|message| !message.is_empty());
    let words = words.unwrap_or_else(|| "the function reported failure, without a message".to_owned());
    FinishedRun { output: Some(output), ..run.failed(ErrorCode::TargetError, words) }
}
