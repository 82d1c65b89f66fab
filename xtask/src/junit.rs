//! The few facts taken from nextest's `JUnit` report: how many tests ran, and which failed.

use std::path::Path;

use anyhow::{Context, Result, ensure};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub counts: Counts,
    pub failed_tests: Vec<String>,
}

/// Removes the report of an earlier run, which would otherwise be counted for a run that broke.
pub fn forget(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

pub fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read nextest's report {}", path.display()))?;
    parse(&text)
}

/// Reads a report by its `<testcase>` elements. Text inside them is escaped by nextest, so a `<` is
/// always markup and no XML parser is needed.
fn parse(text: &str) -> Result<Report> {
    ensure!(text.contains("<testsuites"), "not a JUnit report");
    let mut report = Report::default();
    for case in text.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or(case);
        if case.contains("<failure") || case.contains("<error") {
            report.counts.failed += 1;
            report.failed_tests.push(name_of(case).context("a testcase without a name")?);
        } else if !case.contains("<skipped") {
            report.counts.passed += 1;
        }
    }
    Ok(report)
}

fn name_of(case: &str) -> Option<String> {
    let start = case.find("name=\"")? + "name=\"".len();
    let name = case[start..].split('"').next()?;
    Some(name.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" time="0.02">
    <testsuite name="core" tests="3" disabled="0" errors="0" failures="1">
        <testcase name="cron::fires" classname="core" time="0.004">
        </testcase>
        <testcase name="a04_one_job_per_slot" classname="core" time="0.004">
            <failure message="left != right" type="test failure with exit code 101">&lt;testcase boom</failure>
        </testcase>
        <testcase name="last" classname="core" time="0.004"/>
    </testsuite>
</testsuites>"#;

    #[test]
    fn counts_and_names_are_taken_from_the_cases() {
        let report = parse(REPORT).unwrap();
        assert_eq!(report.counts, Counts { passed: 2, failed: 1 });
        assert_eq!(report.failed_tests, ["a04_one_job_per_slot"]);
    }

    #[test]
    fn something_else_is_refused() {
        assert!(parse("").is_err());
    }
}
