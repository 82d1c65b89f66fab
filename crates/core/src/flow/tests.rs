//! Definitions: what is refused, and where; and what follows from what, as far as no store is needed to see it.

use super::progress::{Event, Facts, Missing, Shape, StepEnd};
use super::*;
use crate::id::JobId;
use crate::job::{Job, NewJob};
use crate::run::ErrorCode;
use crate::target::Flow as FlowTarget;
use jiff::Timestamp;
use proptest::prelude::*;

fn json(text: &str) -> Json {
    Json::parse("input", text).unwrap()
}

fn step(name: &str, after: &[&str]) -> Step {
    Step { after: after.iter().map(|name| (*name).to_owned()).collect(), ..Step::new(name, Target::task("work")) }
}

fn refused(steps: Vec<Step>) -> Invalid {
    FlowDefinition::parallel(steps).validate().unwrap_err()
}

fn flow_job(definition: &FlowDefinition, input: &str) -> Job {
    let id = JobId(uuid::Uuid::from_u128(1));
    let target = Target::Flow(FlowTarget { name: "etl".into(), definition: Some(Box::new(definition.clone())) });
    Job {
        id,
        created_at: Timestamp::UNIX_EPOCH,
        spec: NewJob { input: json(input), ..NewJob::new(target) },
        schedule_id: None,
        slot_at: None,
        retry_of: None,
        root_job_id: id,
        chain_began_at: Timestamp::UNIX_EPOCH,
        attempt: 1,
        failures: 0,
        interruptions: 0,
    }
}

#[test]
fn d06_what_could_never_run_is_refused_with_the_place() {
    let at = |steps: Vec<Step>| refused(steps).field;
    assert_eq!(at(vec![]), "steps");
    assert_eq!(at(vec![step("a", &[]), step("a", &[])]), "steps[1].name");
    for name in ["", "a-b", "1a", "a b", "ü", &"x".repeat(65)] {
        assert_eq!(at(vec![step(name, &[])]), "steps[0].name", "{name}");
    }
    assert_eq!(at(vec![step("a", &[]), step("b", &["a", "x"])]), "steps[1].after[1]");
    assert_eq!(at(vec![Step::new("a", Target::task(""))]), "steps[0].target.name");
    assert_eq!(at(vec![Step { queue: Some(String::new()), ..step("a", &[]) }]), "steps[0].queue");
    let limit = |limit| Step { map: Some(FanOut { over: "input".into(), limit: Some(limit) }), ..step("a", &[]) };
    assert_eq!(at(vec![limit(0)]), "steps[0].map.limit");
    assert_eq!(at(vec![limit(1_001)]), "steps[0].map.limit");
    assert_eq!(at((0..300).map(|n| step(&format!("s{n}"), &[])).collect()), "steps");
}

#[test]
fn d06_a_circle_is_named_from_its_first_step() {
    let circle = refused(vec![step("x", &[]), step("a", &["c"]), step("b", &["a"]), step("c", &["b", "x"])]);
    assert!(circle.to_string().contains("a -> b -> c -> a"), "{circle}");
    let own = refused(vec![step("a", &["a"])]);
    assert!(own.to_string().contains("a -> a"), "{own}");
}

#[test]
fn d06_values_that_cannot_be_there_are_refused_with_the_place() {
    let input = |name: &str, after: &[&str], text: &str| Step { input: Some(json(text)), ..step(name, after) };
    let at = |steps: Vec<Step>| refused(steps).field;
    assert_eq!(at(vec![step("a", &[]), input("b", &[], r#""{{ steps.a.output }}""#)]), "steps[1].input");
    assert_eq!(at(vec![step("a", &[]), input("b", &["a"], r#"{"x": ["{{ steps.a }}"]}"#)]), "steps[1].input");
    assert_eq!(at(vec![input("a", &[], r#""{{ steps.z.output }}""#)]), "steps[0].input");
    assert_eq!(at(vec![input("a", &[], r#""{{ item }}""#)]), "steps[0].input");
    assert_eq!(at(vec![input("a", &[], r#""{{ nothing }}""#)]), "steps[0].input");
    assert_eq!(at(vec![input("a", &[], r#""{{ input. }}""#)]), "steps[0].input");
    let when = |text: &str| Step { when: Some(text.into()), ..step("b", &["a"]) };
    assert_eq!(at(vec![step("a", &[]), when("steps.a.output >")]), "steps[1].when");
    assert_eq!(at(vec![step("a", &[]), when("steps.b.output")]), "steps[1].when");
    let far = vec![step("a", &[]), step("b", &["a"]), input("c", &["b"], r#""{{ steps.a.output.x }}""#)];
    assert_eq!(FlowDefinition::parallel(far).validate(), Ok(()), "what was done long before is there too");
    let output = FlowDefinition {
        output: Some(json(r#""{{ steps.z.output }}""#)),
        ..FlowDefinition::parallel(vec![step("a", &[])])
    };
    assert_eq!(output.validate().unwrap_err().field, "output");
}

#[test]
fn d06_a_definition_round_trips_to_the_letter() {
    let text = r#"{"steps":[{"name":"a","target":{"kind":"task","name":"t"},"input":{"n":12345678901234567890123,"b":1,"a":"{{ input }}"},"on_failure":"stop"}]}"#;
    let definition: FlowDefinition = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&definition).unwrap(), text);
    let target = format!(r#"{{"kind":"flow","name":"x","definition":{text}}}"#);
    let read: Target = serde_json::from_str(&target).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), target);
    let unknown = target.replace("on_failure", "on_failur");
    assert!(serde_json::from_str::<Target>(&unknown).unwrap_err().to_string().contains("on_failur"));
}

#[test]
fn d06_what_is_missing_is_asked_for_by_name() {
    let load = Step { input: Some(json(r#""{{ steps.a.output }}""#)), ..step("b", &["a", "c"]) };
    let definition = FlowDefinition::parallel(vec![step("a", &[]), step("c", &[]), load]);
    let job = flow_job(&definition, "{}");
    let shape = Shape::of(&definition, &job);
    assert!(shape.keeps_output(0) && !shape.keeps_output(1));
    let (begun, moves) = shape.advance(&shape.fresh(), &[Event::Begun], &Facts::default()).unwrap();
    assert_eq!(moves.jobs.len(), 2);
    let end = |step, output: &str| {
        Event::Ended(StepEnd {
            step,
            item: None,
            outcome: Outcome::Completed,
            error_code: None,
            error: None,
            output: Some(json(output)),
        })
    };
    let (one, moves) = shape.advance(&begun, &[end(0, "5")], &Facts::default()).unwrap();
    assert_eq!((moves.jobs.len(), moves.outputs.get(&0)), (0, Some(&json("5"))));
    assert_eq!(shape.advance(&one, &[end(1, "6")], &Facts::default()).unwrap_err(), Missing::Output(0));
    let facts = Facts { outputs: [(0, Some(json("5")))].into(), ..Facts::default() };
    let (_, moves) = shape.advance(&one, &[end(1, "6")], &facts).unwrap();
    assert_eq!(moves.jobs[0].spec.input, json("5"));
    let told_twice = shape.advance(&one, &[end(0, "7"), end(0, "7")], &facts).unwrap();
    assert_eq!(told_twice.0, one, "what has ended does not end again");
}

#[test]
fn d06_a_flow_is_not_tried_again_as_a_whole_unless_it_says_so() {
    let job = NewJob::new(Target::flow("etl"));
    assert_eq!((job.retry.max_attempts, job.timeout), (1, Timeout::Never));
    assert_eq!(NewJob::new(Target::task("t")).retry.max_attempts, 3);
}

#[test]
fn d06_stopping_ends_what_has_not_begun_and_leaves_what_runs() {
    let definition = FlowDefinition::sequential(vec![step("a", &[]), step("b", &[])]);
    let job = flow_job(&definition, "{}");
    let shape = Shape::of(&definition, &job);
    let (begun, _) = shape.advance(&shape.fresh(), &[Event::Begun], &Facts::default()).unwrap();
    let (stopping, moves) = shape.advance(&begun, &[Event::Stop(ErrorCode::Cancelled)], &Facts::default()).unwrap();
    assert!(moves.cancel && moves.end.is_none());
    assert_eq!(stopping.steps[1].outcome, Some(Outcome::Cancelled));
    let done =
        StepEnd { step: 0, item: None, outcome: Outcome::Completed, error_code: None, error: None, output: None };
    let (_, moves) = shape.advance(&stopping, &[Event::Ended(done)], &Facts::default()).unwrap();
    let end = moves.end.unwrap();
    assert_eq!((end.outcome, end.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
}

proptest! {
    /// Whatever is written, it is refused or accepted, and nothing breaks.
    #[test]
    fn d06_no_text_breaks_the_rules(when in "\\PC{0,40}", input in "\\PC{0,40}", over in "\\PC{0,20}") {
        let text = serde_json::to_string(&format!("{{{{ {input} }}}}")).unwrap();
        let steps = vec![Step {
            when: Some(when),
            input: Some(json(&text)),
            map: Some(FanOut { over, limit: None }),
            ..step("a", &[])
        }];
        let definition = FlowDefinition::parallel(steps);
        if definition.validate().is_ok() {
            let job = flow_job(&definition, "[1, 2]");
            let shape = Shape::of(&definition, &job);
            let (_, moves) = shape.advance(&shape.fresh(), &[Event::Begun], &Facts::default()).unwrap();
            prop_assert!(moves.end.is_some() || !moves.jobs.is_empty());
        }
    }
}
