//! What OpenTelemetry's own variables say about where spans go, and whose they are.

use punctual_core::invalid::Invalid;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;

/// Where spans go, and whose they are.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    url: Url,
    headers: HeaderMap,
    resource: BTreeMap<String, String>,
}

impl OtlpSettings {
    /// What the variables of this process say; `None` when they name no receiver, or switch traces off.
    pub fn from_env() -> Result<Option<Self>, Invalid> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The same with variables from anywhere.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Invalid> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|word| word == "none");
        if is_off {
            return Ok(None);
        }
        let own = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(|url| address(&url));
        let common = || variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| address(&url).map(below));
        let Some(url) = own.or_else(common).transpose()? else { return Ok(None) };
        let headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        let mut resource = BTreeMap::from([
            ("service.name".to_owned(), "punctual".to_owned()),
            ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        resource.extend(pairs("OTEL_RESOURCE_ATTRIBUTES", &variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default())?);
        resource.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
        Ok(Some(Self { url, headers: header_map(&headers.unwrap_or_default())?, resource }))
    }

    /// Says more of who it is, unless it was said.
    #[must_use]
    pub fn with_resource(mut self, key: &str, value: &str) -> Self {
        self.resource.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        self
    }

    pub(super) fn url(&self) -> Url {
        self.url.clone()
    }

    pub(super) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    pub(super) fn resource(&self) -> impl Iterator<Item = (&str, &str)> {
        self.resource.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn address(text: &str) -> Result<Url, Invalid> {
    let refused = |problem: String| {
        Invalid::new("OTEL_EXPORTER_OTLP_ENDPOINT", problem)
            .remedy("write it as http://HOST:4318 or https://HOST; spans go there by HTTP, in JSON")
    };
    let url = Url::parse(text).map_err(|error| refused(format!("{text} is no address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return Err(refused(format!("{text} is neither http nor https")));
    }
    Ok(url)
}

/// The common address is what the paths of all signals stand below.
fn below(mut url: Url) -> Url {
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["v1", "traces"]);
    }
    url
}

fn header_map(text: &str) -> Result<HeaderMap, Invalid> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(VARIABLE, text)? {
        // The value may be a secret, and is not repeated.
        let unfit = || Invalid::new(VARIABLE, format!("`{name}` cannot be sent")).remedy("write it as name=value,…");
        let mut value = HeaderValue::from_str(&value).map_err(|_| unfit())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?, value);
    }
    Ok(headers)
}

/// `key=value,key=value`, the values with percent signs for what would be misunderstood.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, Invalid> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                Invalid::new(variable, "has a part without an equals sign").remedy("write it as name=value,name=value")
            })?;
            Ok((key.trim().to_owned(), without_percent(value.trim())))
        })
        .collect()
}

/// What is no such sign stays as it is.
fn without_percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| bytes[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, Invalid> {
        let found = |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
        OtlpSettings::from_variables(found)
    }

    #[test]
    fn d12_traces_are_off_unless_a_receiver_is_named() {
        let named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for off in [
            vec![],
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            vec![("OTEL_SERVICE_NAME", "x")],
            vec![named, ("OTEL_SDK_DISABLED", "TRUE")],
            vec![named, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(settings(&off).unwrap().is_none(), "{off:?}");
        }
        assert!(settings(&[named]).unwrap().is_some());
    }

    #[test]
    fn d12_the_standard_variables_say_where_spans_go_and_whose_they_are() {
        let common = |url| settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url)]).unwrap().unwrap().url.to_string();
        assert_eq!(common("http://localhost:4318"), "http://localhost:4318/v1/traces");
        assert_eq!(common("https://host/otlp/"), "https://host/otlp/v1/traces");
        let all = settings(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://common"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own/here"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret%2C1, x-team = a%zz "),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=ignored,deployment.environment=test"),
            ("OTEL_SERVICE_NAME", "nightly"),
        ]);
        let all = all.unwrap().unwrap().with_resource("service.name", "late").with_resource("host.name", "here");
        assert_eq!(all.url.as_str(), "http://own/here");
        assert_eq!(all.headers["authorization"], "Bearer s3cret,1");
        assert_eq!(all.headers["x-team"], "a%zz");
        assert!(!format!("{all:?}").contains("s3cret"));
        let resource: BTreeMap<_, _> = all.resource().collect();
        assert_eq!((resource["service.name"], resource["deployment.environment"]), ("nightly", "test"));
        assert_eq!((resource["host.name"], resource["service.version"]), ("here", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn d12_what_cannot_be_used_is_refused_with_a_remedy() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for bad in [
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")],
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://localhost")],
            vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "nowhere")],
            vec![endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "authorization")],
            vec![endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c")],
            vec![endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "a=line%0Abreak")],
            vec![endpoint, ("OTEL_RESOURCE_ATTRIBUTES", "x")],
        ] {
            let refused = settings(&bad).expect_err(&format!("{bad:?}"));
            assert!(refused.remedy.is_some(), "{refused}");
        }
    }
}
