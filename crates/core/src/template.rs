//! Job templates: a named job with parameters that whoever uses it fills in.
//!
//! A parameter is a field of the job's input, with a type, a default, or the demand that it be given. Nothing else is
//! filled in when a job is made: an HTTP target's own templates read the input when it runs (`{{ input.to }}`), and
//! there is one such rule, not two.

use crate::id::TemplateId;
use crate::invalid::Invalid;
use crate::job::NewJob;
use crate::json::Json;
use crate::name::{self, Name};
use crate::words::words;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most parameters of one template.
const PARAMETERS_MAX: usize = 64;

/// A named job definition that schedules and callers start from (D09).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its identity.
    pub id: TemplateId,
    /// Its name.
    pub name: Name,
    /// What jobs made from it look like.
    pub job: NewJob,
    /// What is filled in by whoever uses it.
    pub parameters: Vec<Parameter>,
    /// When it was made.
    pub created_at: Timestamp,
}

words! {
    /// What a parameter may be.
    pub enum ParameterKind as "parameter type" {
        /// A text.
        Text = "text",
        /// A whole number.
        Integer = "integer",
        /// Any number.
        Number = "number",
        /// True or false.
        Boolean = "boolean",
        /// Any JSON.
        Json = "json",
    }
}

impl ParameterKind {
    fn fits(self, value: &Json) -> bool {
        let text = value.as_str().trim();
        match self {
            Self::Text => text.starts_with('"'),
            // By its digits, because a number of JSON programs may have lost some.
            Self::Integer => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            }
            Self::Number => text.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
            Self::Boolean => matches!(text, "true" | "false"),
            Self::Json => true,
        }
    }
}

/// A field of a template's input that whoever uses it fills in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The field.
    pub name: String,
    /// What it may be.
    #[serde(rename = "type")]
    pub kind: ParameterKind,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
    /// What it is when it is not given; the field is absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Parameter {
    /// A parameter that must be given.
    pub fn required(name: impl Into<String>, kind: ParameterKind) -> Self {
        Self { name: name.into(), kind, required: true, default: None, description: String::new() }
    }

    /// A parameter that may be left out.
    pub fn optional(name: impl Into<String>, kind: ParameterKind, default: Option<Json>) -> Self {
        Self { required: false, default, ..Self::required(name, kind) }
    }
}

/// Refuses parameters that make no sense, and an input that has no fields to put them into.
pub fn check_parameters(parameters: &[Parameter], input: &Json) -> Result<(), Invalid> {
    if parameters.len() > PARAMETERS_MAX {
        return Err(Invalid::new("parameters", format!("are more than {PARAMETERS_MAX}")).remedy("use fewer"));
    }
    let mut seen = BTreeSet::new();
    for parameter in parameters {
        let at = format!("parameters.{}", parameter.name.chars().take(64).collect::<String>());
        name::check(&parameter.name).map_err(|e| Invalid { field: at.clone(), ..e })?;
        name::check_text(&at, &parameter.description)?;
        if !seen.insert(parameter.name.as_str()) {
            return Err(Invalid::new(at, "is there twice").remedy("name each parameter once"));
        }
        if parameter.required && parameter.default.is_some() {
            return Err(Invalid::new(at, "is required and has a default").remedy("leave one of the two out"));
        }
        if let Some(default) = &parameter.default {
            default.check(&at)?;
            if !parameter.kind.fits(default) {
                return Err(Invalid::new(at, format!("has a default that is no {}", parameter.kind))
                    .remedy("change the default or the type"));
            }
        }
    }
    if !parameters.is_empty() {
        fields_of(input)?;
    }
    Ok(())
}

fn fields_of(input: &Json) -> Result<BTreeMap<String, Json>, Invalid> {
    serde_json::from_str(input.as_str()).map_err(|_| {
        Invalid::new("input", "is not an object, so that it has no fields for parameters")
            .remedy("make the template's input an object, such as {}")
    })
}

/// The input of a job that is made from a template: the template's own, the defaults, and what was given.
pub fn fill(input: &Json, parameters: &[Parameter], given: &BTreeMap<String, Json>) -> Result<Json, Invalid> {
    if let Some(unknown) = given.keys().find(|name| parameters.iter().all(|parameter| parameter.name != **name)) {
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let remedy = if names.is_empty() { "it has none".to_owned() } else { format!("use: {}", names.join(", ")) };
        return Err(Invalid::new(format!("parameters.{unknown}"), "is no parameter of the template").remedy(remedy));
    }
    if parameters.is_empty() {
        return Ok(input.clone());
    }
    let mut fields = fields_of(input)?;
    for parameter in parameters {
        let at = || format!("parameters.{}", parameter.name);
        let value = given.get(&parameter.name).or(parameter.default.as_ref());
        match value {
            None if parameter.required => {
                return Err(Invalid::new(at(), "is missing").remedy(format!("give it; it is a {}", parameter.kind)));
            }
            None => {}
            Some(value) if parameter.kind.fits(value) => {
                fields.insert(parameter.name.clone(), value.clone());
            }
            Some(_) => {
                return Err(Invalid::new(at(), format!("is no {}", parameter.kind)).remedy("give one of that type"));
            }
        }
    }
    Json::from_value("input", &fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> Json {
        Json::parse("input", text).unwrap()
    }

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, Json> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), json(value))).collect()
    }

    fn parameters() -> Vec<Parameter> {
        vec![
            Parameter::required("to", ParameterKind::Text),
            Parameter::optional("copies", ParameterKind::Integer, Some(json("1"))),
            Parameter::optional("scale", ParameterKind::Number, None),
        ]
    }

    #[test]
    fn d09_parameters_fill_the_input_over_what_the_template_says() {
        let base = json(r#"{"from": "me", "to": "nobody"}"#);
        let filled =
            |pairs: &[(&str, &str)]| fill(&base, &parameters(), &given(pairs)).map(|json| json.as_str().to_owned());
        assert_eq!(filled(&[("to", "\"ada\"")]).unwrap(), r#"{"copies":1,"from":"me","to":"ada"}"#);
        let big = filled(&[("to", "\"a\""), ("copies", "12345678901234567890123"), ("scale", "1.50")]).unwrap();
        assert_eq!(big, r#"{"copies":12345678901234567890123,"from":"me","scale":1.50,"to":"a"}"#, "to the last digit");
    }

    #[test]
    fn d09_missing_unknown_and_mistyped_parameters_are_refused_by_name() {
        let refused = |pairs: &[(&str, &str)]| fill(&json("{}"), &parameters(), &given(pairs)).unwrap_err();
        assert_eq!(refused(&[]).field, "parameters.to");
        assert_eq!(refused(&[("to", "7")]).field, "parameters.to");
        assert_eq!(refused(&[("to", "\"a\""), ("copies", "1.5")]).field, "parameters.copies");
        let unknown = refused(&[("to", "\"a\""), ("too", "1")]);
        assert_eq!(
            (unknown.field.as_str(), unknown.remedy.as_deref()),
            ("parameters.too", Some("use: to, copies, scale"))
        );
        assert!(fill(&json("7"), &[], &BTreeMap::new()).is_ok(), "a template without parameters takes any input");
        assert!(fill(&json("7"), &[], &given(&[("x", "1")])).is_err());
    }

    #[test]
    fn d09_parameters_that_make_no_sense_are_refused() {
        assert_eq!(check_parameters(&parameters(), &json("{}")), Ok(()));
        assert_eq!(check_parameters(&parameters(), &json("[]")).unwrap_err().field, "input");
        let wrong = [
            vec![Parameter::required("", ParameterKind::Text)],
            vec![Parameter::required("a", ParameterKind::Text), Parameter::required("a", ParameterKind::Json)],
            vec![Parameter::optional("a", ParameterKind::Boolean, Some(json("1")))],
            vec![Parameter { default: Some(json("1")), ..Parameter::required("a", ParameterKind::Integer) }],
        ];
        for parameters in wrong {
            assert!(check_parameters(&parameters, &json("{}")).is_err(), "{parameters:?}");
        }
    }

    proptest! {
        #[test]
        fn d09_what_was_given_stands_in_the_input(copies in any::<i64>(), to in "\\PC{0,20}") {
            let to = serde_json::to_string(&to).unwrap();
            let filled = fill(&json("{}"), &parameters(), &given(&[("to", &to), ("copies", &copies.to_string())])).unwrap();
            let value: serde_json::Value = serde_json::from_str(filled.as_str()).unwrap();
            prop_assert_eq!(value["copies"].as_i64(), Some(copies));
            prop_assert_eq!(value["to"].to_string(), to);
        }
    }
}
