//! The closed sets and the nested shapes of the API, as the OpenAPI document shows them; `core` reads and writes them.

use punctual_core::access::Role;
use punctual_core::bulk::BulkAction;
use punctual_core::calendar::ClosedWeekday;
use punctual_core::flow::{OnFailure, StepOrder};
use punctual_core::job::JobState;
use punctual_core::job_key::JobKeyMode;
use punctual_core::manifest::ThingKind;
use punctual_core::notify::channel::ChannelKind;
use punctual_core::notify::delivery::DeliveryState;
use punctual_core::notify::event::SubjectKind;
use punctual_core::notify::message::Occasion;
use punctual_core::notify::rule;
use punctual_core::records::LogStream;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::schedule::{Overlap, Source};
use punctual_core::slot::{Decision, Reason};
use punctual_core::why::Verdict;
use serde_json::json;
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// A schema that lists the words of one of `core`'s closed sets.
macro_rules! word_schemas {
    ($($schema:ident = $words:ty as $name:literal;)+) => { $(
        /// The words of a closed set.
        pub(crate) struct $schema;

        impl PartialSchema for $schema {
            fn schema() -> RefOr<Schema> {
                let words = <$words>::ALL.iter().map(|word| json!(word.as_str()));
                RefOr::T(Schema::Object(
                    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).enum_values(Some(words)).build(),
                ))
            }
        }

        impl ToSchema for $schema {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }
        }
    )+ };
}

word_schemas! {
    StateWord = JobState as "JobState";
    OutcomeWord = Outcome as "Outcome";
    ErrorCodeWord = ErrorCode as "ErrorCode";
    TriggerWord = Trigger as "Trigger";
    OverlapWord = Overlap as "Overlap";
    SourceWord = Source as "Source";
    DecisionWord = Decision as "Decision";
    ReasonWord = Reason as "Reason";
    RoleWord = Role as "Role";
    LogStreamWord = LogStream as "LogStream";
    JobKeyModeWord = JobKeyMode as "JobKeyMode";
    BulkActionWord = BulkAction as "BulkAction";
    ClosedWeekdayWord = ClosedWeekday as "Weekday";
    OnFailureWord = OnFailure as "OnFailure";
    FlowOrderWord = StepOrder as "StepOrder";
    VerdictWord = Verdict as "Verdict";
    ChannelKindWord = ChannelKind as "ChannelKind";
    RuleTriggerWord = rule::Trigger as "RuleTrigger";
    OccasionWord = Occasion as "Occasion";
    DeliveryStateWord = DeliveryState as "DeliveryState";
    SubjectKindWord = SubjectKind as "SubjectKind";
    ThingKindWord = ThingKind as "ThingKind";
}

/// A document whose shape the API describes by hand, because `core` reads and writes it.
macro_rules! document_schemas {
    ($($schema:ident as $name:literal = $text:tt;)+) => { $(
        /// A document of `core`.
        pub(crate) struct $schema;

        impl PartialSchema for $schema {
            fn schema() -> RefOr<Schema> {
                serde_json::from_value(json!($text)).unwrap_or_else(|_| RefOr::T(Schema::default()))
            }
        }

        impl ToSchema for $schema {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }
        }
    )+ };
}

document_schemas! {
    TargetDocument as "Target" = {
        "description": "What a job does.",
        "oneOf": [
            { "type": "object", "title": "command", "required": ["kind", "argv"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["command"] },
                "argv": { "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "The program and its arguments; with `shell`, a script and its arguments." },
                "shell": { "type": "boolean", "description": "Whether /bin/sh runs the first of argv as a script." },
                "env": { "type": "object", "additionalProperties": { "$ref": "#/components/schemas/TextOrSecret" } },
                "cwd": { "type": ["string", "null"], "description": "The folder it runs in; an empty one when absent." },
                "input": { "type": "string", "enum": ["stdin", "file", "none"], "description": "How it gets its job's input." },
                "artifacts": { "type": ["string", "null"], "description": "A folder whose files are kept with the run." },
                "limits": { "type": "object", "additionalProperties": false, "description": "What it may use.", "properties": {
                    "cpu": { "type": ["string", "null"], "description": "A duration in whole seconds." },
                    "memory_bytes": { "type": ["integer", "null"], "minimum": 0 }, "file_bytes": { "type": ["integer", "null"], "minimum": 0 },
                    "open_files": { "type": ["integer", "null"], "minimum": 0 }, "processes": { "type": ["integer", "null"], "minimum": 0 } } },
                "user": { "type": ["string", "null"], "description": "Whom it runs as." } } },
            { "type": "object", "title": "http", "required": ["kind", "url"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["http"] },
                "method": { "type": "string" }, "url": { "type": "string" },
                "headers": { "type": "object", "additionalProperties": { "$ref": "#/components/schemas/TextOrSecret" } },
                "body": { "description": "A text, or JSON whose texts are templates." },
                "secrets": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Secrets that the templates may use, by name." },
                "accept": { "$ref": "#/components/schemas/Statuses" }, "retry_on": { "$ref": "#/components/schemas/Statuses" },
                "redirects": { "type": "integer", "minimum": 0, "maximum": 10 },
                "connect_timeout": { "type": ["string", "null"] }, "timeout": { "type": ["string", "null"] } } },
            { "type": "object", "title": "sql", "required": ["kind", "connection"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["sql"] }, "connection": { "type": "string" },
                "function": { "type": ["string", "null"] }, "statement": { "type": ["string", "null"] } } },
            { "type": "object", "title": "task", "required": ["kind", "name"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["task"] }, "name": { "type": "string" } } },
            { "type": "object", "title": "flow", "required": ["kind", "name"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["flow"] }, "name": { "type": "string" },
                "definition": { "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/NewFlow" }], "description": "Its steps, when they are not those that are stored under the name." } } },
            { "type": "object", "title": "graph", "required": ["kind", "id"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["graph"] }, "id": { "type": "string" } } }
        ]
    };
    TextOrSecret as "TextOrSecret" = {
        "description": "A text, or a reference to a secret of the node.",
        "oneOf": [
            { "type": "string" },
            { "type": "object", "required": ["secret"], "additionalProperties": false, "properties": { "secret": { "type": "string" } } }
        ]
    };
    StatusesDocument as "Statuses" = {
        "type": "array", "description": "Statuses: numbers, classes such as 2xx, ranges such as 400-404.",
        "items": { "oneOf": [{ "type": "integer", "minimum": 100, "maximum": 599 }, { "type": "string" }] }
    };
    ClosedDayDocument as "ClosedDay" = {
        "type": "object", "description": "A whole day.", "required": ["on"], "additionalProperties": false, "properties": {
            "on": { "type": "string", "pattern": "^([0-9]{4}-)?[0-9]{2}-[0-9]{2}$", "description": "A date, or a month and a day for the same day of every year." },
            "note": { "type": ["string", "null"], "description": "What it is, for people." } }
    };
    RetryDocument as "Retry" = {
        "type": "object", "description": "How a job is tried again.", "additionalProperties": false, "properties": {
            "max_attempts": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "1 means no retry." },
            "backoff": { "type": "string", "enum": ["fixed", "exponential"] },
            "base": { "type": "string", "description": "The first wait, a duration such as 1s." },
            "max": { "type": "string", "description": "The longest wait, a duration such as 10m." },
            "max_age": { "type": ["string", "null"], "description": "No retry when the first job is older than this." },
            "max_interruptions": { "type": "integer", "minimum": 0, "maximum": 1000 },
            "serial_on_failure": { "type": "string", "enum": ["continue", "hold"], "description": "Whether the next jobs of its serial key wait until it is made good." } }
    };
    ParameterDocument as "Parameter" = {
        "type": "object", "description": "A field of a template's input.", "additionalProperties": false, "required": ["name", "type"], "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 200 },
            "type": { "type": "string", "enum": ["text", "integer", "number", "boolean", "json"] },
            "required": { "type": "boolean", "description": "Whether it must be given." },
            "default": { "description": "What it is when it is not given." },
            "description": { "type": "string" } }
    };
    UniqueDocument as "Unique" = {
        "type": "object", "description": "Once in a period.", "additionalProperties": false, "required": ["period"], "properties": {
            "key": { "type": ["string", "null"], "description": "What makes two jobs the same; their target, input, queue and owner unless given." },
            "period": { "type": "string", "description": "From the making of the first, a duration such as 1h." },
            "states": { "type": ["array", "null"], "minItems": 1, "items": { "$ref": "#/components/schemas/JobState" },
                "description": "Only while the first, or its last retry, is in one of these; waiting, scheduled, queued, running, completed unless given." } }
    };
    MissedDocument as "Missed" = {
        "description": "What happens to slots that passed while nobody could fire them.",
        "oneOf": [
            { "type": "string", "enum": ["skip", "once", "all"] },
            { "type": "object", "required": ["policy"], "additionalProperties": false, "properties": {
                "policy": { "type": "string", "enum": ["skip", "once", "all"] },
                "window": { "type": ["string", "null"], "description": "A duration such as 1h." },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100_000 } } }
        ]
    };
    ChannelTargetDocument as "ChannelTarget" = {
        "description": "Where a channel leads.",
        "oneOf": [
            { "type": "object", "title": "webhook", "required": ["kind", "url", "secrets"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["webhook"] }, "url": { "$ref": "#/components/schemas/TextOrSecret" },
                "secrets": { "type": "array", "minItems": 1, "maxItems": 4, "description": "What it is signed with: the present secret first, then those on their way out.",
                    "items": { "type": "object", "required": ["secret"], "additionalProperties": false, "properties": { "secret": { "type": "string" } } } },
                "headers": { "type": "object", "additionalProperties": { "$ref": "#/components/schemas/TextOrSecret" } } } },
            { "type": "object", "title": "email", "required": ["kind", "host", "from", "to"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["email"] }, "host": { "type": "string" },
                "port": { "type": ["integer", "null"], "minimum": 1, "maximum": 65535 },
                "tls": { "type": "string", "enum": ["implicit", "starttls", "none"] },
                "username": { "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/TextOrSecret" }] },
                "password": { "oneOf": [{ "type": "null" }, { "type": "object", "required": ["secret"], "additionalProperties": false, "properties": { "secret": { "type": "string" } } }] },
                "from": { "type": "string" }, "to": { "type": "array", "minItems": 1, "maxItems": 50, "items": { "type": "string" } } } },
            { "type": "object", "title": "slack", "required": ["kind", "url"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["slack"] }, "url": { "$ref": "#/components/schemas/TextOrSecret" } } },
            { "type": "object", "title": "ping", "required": ["kind", "url"], "additionalProperties": false, "properties": {
                "kind": { "type": "string", "enum": ["ping"] }, "url": { "$ref": "#/components/schemas/TextOrSecret" } } }
        ]
    };
    ScopeDocument as "RuleScope" = {
        "type": "object", "description": "Where a rule looks; everywhere when nothing is said.", "additionalProperties": false, "properties": {
            "schedule": { "type": ["string", "null"] },
            "label": { "type": ["string", "null"], "description": "`key` or `key=value`." },
            "queue": { "type": ["string", "null"] } }
    };
    StepDocument as "RuleStep" = {
        "type": "object", "description": "Who is told, and when.", "required": ["channels"], "additionalProperties": false, "properties": {
            "channels": { "type": "array", "minItems": 1, "maxItems": 10, "items": { "type": "string" } },
            "after": { "type": ["string", "null"], "description": "So long after the first step was told, such as 15m; the first step has none." },
            "failures": { "type": ["integer", "null"], "minimum": 0, "description": "Or as soon as it has happened so often." } }
    };
    QuietDocument as "QuietHours" = {
        "type": "object", "description": "When nobody is told; what falls into it is told when it is over.", "required": ["from", "until"], "additionalProperties": false, "properties": {
            "from": { "type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$" }, "until": { "type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$" },
            "timezone": { "type": "string", "description": "An IANA name; UTC unless said otherwise." },
            "days": { "type": "array", "items": { "$ref": "#/components/schemas/Weekday" }, "description": "On which it begins; every day when there are none." } }
    };
}
