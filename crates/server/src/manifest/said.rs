//! What a thing is in the words of the API: as a whole, to compare and to keep; and without what is as usual, to write.

use super::node::{Fields, Node};
use crate::api::limits::RateBody;
use crate::api::schedule_shapes::Definition;
use punctual_core::job::NewJob;
use punctual_core::manifest::{ScheduleThing, Thing, ThingKind};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::timing::TimingSpec;
use serde_json::json;

/// What a manifest may leave to people or to the past: it is compared only where the manifest says it.
const LEFT_OPEN: [&str; 2] = ["paused", "template"];

/// A thing as a whole, without its name.
pub(crate) fn whole(thing: &Thing) -> Fields {
    let mut fields = match thing {
        Thing::Calendar { description, rules } => {
            let mut fields = Node::of(rules).into_fields();
            fields.insert("description".to_owned(), Node::text(description));
            fields
        }
        Thing::Preset { expression, description } => {
            Node::of(&json!({ "expression": expression, "description": description })).into_fields()
        }
        Thing::Template { job, parameters } => Fields::from([
            ("job".to_owned(), Node::Fields(job_fields(job))),
            ("parameters".to_owned(), Node::of(parameters)),
        ]),
        Thing::Queue { paused } => Node::of(&json!({ "paused": paused })).into_fields(),
        Thing::Limit(limit) => {
            let rate = limit.rate.map(RateBody::of);
            let rate = Node::of(&rate);
            let counts = json!({ "concurrency": limit.concurrency, "node_concurrency": limit.node_concurrency });
            let mut fields = Node::of(&counts).into_fields();
            fields.insert("rate".to_owned(), rate);
            fields
        }
        Thing::Channel(channel) => Node::of(channel).into_fields(),
        Thing::Rule(rule) => Node::of(rule).into_fields(),
        Thing::Flow { definition, .. } => Node::of(definition).into_fields(),
        Thing::Schedule(schedule) => schedule_fields(schedule),
    };
    fields.remove("name");
    fields
}

/// The fields of a job that a template says.
fn job_fields(job: &NewJob) -> Fields {
    let mut fields = Node::of(job).into_fields();
    for field in ["template_id", "trigger", "trigger_detail", "owner", "job_key"] {
        fields.remove(field);
    }
    fields
}

fn schedule_fields(schedule: &ScheduleThing) -> Fields {
    let ScheduleThing { definition, depends_on, template, paused } = schedule;
    let mut fields = Node::of(&Definition::from(definition)).into_fields();
    if let Some(Node::Fields(dependency)) = fields.get_mut("depends_on") {
        dependency.remove("schedule_id");
        let name = depends_on.as_ref().map_or_else(Node::null, |name| Node::text(name.as_str()));
        dependency.insert("schedule".to_owned(), name);
    }
    if let Some(template) = template {
        fields.insert("template".to_owned(), Node::text(template.as_str()));
    }
    if let Some(paused) = paused {
        fields.insert("paused".to_owned(), Node::of(paused));
    }
    fields
}

/// What is there, without what the other side leaves open.
pub(crate) fn beside(mut there: Fields, other: &Fields) -> Fields {
    for field in LEFT_OPEN {
        if !other.contains_key(field) {
            there.remove(field);
        }
    }
    there
}

/// A thing as it is written into a manifest: what is as usual is left out.
pub(crate) fn brief(thing: &Thing) -> Fields {
    let mut fields = whole(thing);
    let usual = match thing {
        Thing::Schedule(schedule) => return brief_schedule(schedule, fields),
        Thing::Template { job, .. } => {
            let mut brief = without(job_fields(job), &job_fields(&NewJob::new(job.target.clone())), &["target"]);
            brief.retain(|name, value| name == "input" || !value.is_empty());
            fields.insert("job".to_owned(), Node::Fields(brief));
            Fields::new()
        }
        // Whether it is paused is all that it says.
        Thing::Queue { .. } => return fields,
        _ => Node::of(&usual_of(thing.kind())).into_fields(),
    };
    let mut brief = without(fields, &usual, &[]);
    brief.retain(|_, value| !value.is_empty());
    brief
}

/// What fields are when nobody says them.
fn usual_of(kind: ThingKind) -> serde_json::Value {
    match kind {
        ThingKind::Calendar => json!({ "timezone": "UTC" }),
        ThingKind::Channel => json!({ "enabled": true }),
        ThingKind::Rule => json!({ "enabled": true, "wait": "10s", "group_by": "cause" }),
        ThingKind::Flow => json!({ "order": "graph" }),
        _ => json!({}),
    }
}

fn brief_schedule(schedule: &ScheduleThing, fields: Fields) -> Fields {
    let definition = &schedule.definition;
    let timing = TimingSpec::cron("* * * * *", "UTC");
    let usual = ScheduleDefinition::new(definition.name.clone(), timing, definition.target.clone());
    let usual = Node::of(&Definition::from(&usual)).into_fields();
    let mut brief = without(fields, &usual, &["cron", "target"]);
    brief.retain(|name, value| name == "input" || !value.is_empty());
    // What a template gave stands in the fields themselves, as it was filled in.
    brief.remove("template");
    // What it waits for was removed: no manifest can say that.
    if schedule.depends_on.is_none() {
        brief.remove("depends_on");
    }
    if schedule.paused == Some(false) {
        brief.remove("paused");
    }
    brief
}

fn without(mut fields: Fields, usual: &Fields, always: &[&str]) -> Fields {
    fields.retain(|name, value| always.contains(&name.as_str()) || usual.get(name) != Some(value));
    fields
}
