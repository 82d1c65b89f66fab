//! A plan, printed for people: what becomes of each thing, field by field, and how the next fires move.

use std::io::{self, Write};

use serde_json::Value;

use super::super::show::visible;
use crate::cli::Output;

/// How the actions of a plan are shown: a sign, a colour, and what is said.
const ACTIONS: &[(&str, &str, &str, &str)] = &[
    ("make", "+", "32", ""),
    ("change", "~", "33", ""),
    ("adopt", "&", "33", " (taken over: no manifest had it)"),
    ("accept", "=", "33", " (changed by hand into what the file says)"),
    ("remove", "-", "31", ""),
    ("left", "?", "2", " (not in the file any more; --prune removes it)"),
    ("affected", "*", "33", " (its calendar changes)"),
];

/// The longest value that is shown on a line.
const VALUE_MAX: usize = 200;

pub(crate) fn plan(out: &mut Output, plan: &Value) -> io::Result<()> {
    for thing in plan["things"].as_array().into_iter().flatten() {
        head(out, thing)?;
        for (field, value) in thing["definition"].as_object().into_iter().flatten() {
            writeln!(out, "    {}: {}", visible(field), text_of(value))?;
        }
        for change in thing["changes"].as_array().into_iter().flatten() {
            writeln!(out, "    {}", moved(change))?;
        }
        for change in thing["drift"].as_array().into_iter().flatten() {
            writeln!(out, "    changed by hand: {}", moved(change))?;
        }
        if thing["removed_by_hand"] == true {
            writeln!(out, "    removed by hand: it was applied before")?;
        }
        fires(out, &thing["action"], &thing["fires"])?;
        for note in thing["notes"].as_array().into_iter().flatten() {
            writeln!(out, "    note: {}", text(note))?;
        }
    }
    if let Some(others @ 1..) = plan["others_affected"].as_u64() {
        writeln!(out, "{others} schedules of other owners fire otherwise because their calendar changes")?;
    }
    summary(out, plan)
}

fn head(out: &mut Output, thing: &Value) -> io::Result<()> {
    let action = thing["action"].as_str().unwrap_or_default();
    let shown = ACTIONS.iter().find(|(name, ..)| *name == action);
    let (_, sign, colour, words) = shown.copied().unwrap_or((action, " ", "0", ""));
    let line = format!("{sign} {action} {} {}{words}", text(&thing["kind"]), text(&thing["name"]));
    coloured(out, colour, &line)
}

fn coloured(out: &mut Output, colour: &str, line: &str) -> io::Result<()> {
    if out.bold { writeln!(out, "\x1b[{colour}m{line}\x1b[0m") } else { writeln!(out, "{line}") }
}

fn moved(change: &Value) -> String {
    let side = |side: &str| change.get(side).map_or_else(|| "(nothing)".to_owned(), text_of);
    format!("{}: {} -> {}", text(&change["field"]), side("from"), side("to"))
}

fn fires(out: &mut Output, action: &Value, fires: &Value) -> io::Result<()> {
    let Some(moved) = fires["moved"].as_bool() else { return Ok(()) };
    if !moved {
        let told = if action == "make" { "fires nothing while it is paused" } else { "fires as before" };
        return writeln!(out, "    {told}");
    }
    let (before, after) = (&fires["before"], &fires["after"]);
    writeln!(out, "    fires in the next 90 days: {before} -> {after}, {}", text(&fires["timezone"]))?;
    for fire in fires["list"].as_array().into_iter().flatten() {
        let (sign, colour) = match fire["move"].as_str() {
            Some("gone") => ("-", "31"),
            Some("new") => ("+", "32"),
            _ => (" ", "0"),
        };
        let late = fire["run_at"].as_str().filter(|run_at| fire["slot_at"] != **run_at);
        let late = late.map(|run_at| format!(", due {run_at}")).unwrap_or_default();
        let skipped = fire["skipped"].as_str().map(|why| format!(", skipped: {}", visible(why))).unwrap_or_default();
        coloured(out, colour, &format!("      {sign} {}{late}{skipped}", text(&fire["local"])))?;
    }
    Ok(())
}

fn summary(out: &mut Output, plan: &Value) -> io::Result<()> {
    let counts = &plan["counts"];
    let told = [
        ("make", "to make"),
        ("change", "to change"),
        ("adopt", "to take over"),
        ("accept", "changed by hand as the file says"),
        ("remove", "to remove"),
        ("left", "left"),
        ("unchanged", "unchanged"),
    ];
    let told = told.iter().filter(|(count, _)| counts[count].as_u64().is_some_and(|n| n > 0));
    let mut told: Vec<String> = told.map(|(count, words)| format!("{} {words}", counts[count])).collect();
    if plan["is_empty"] == true {
        told.insert(0, "nothing to do".to_owned());
    }
    out.heading(&format!("{}: {}", text(&plan["owner"]), told.join(", ")))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), visible)
}

fn text_of(value: &Value) -> String {
    let written = visible(&value.to_string());
    let cut: String = written.chars().take(VALUE_MAX).collect();
    if cut.len() < written.len() { format!("{cut}…") } else { cut }
}
