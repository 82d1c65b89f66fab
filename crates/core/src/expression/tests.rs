//! Templates: what they fill in, and what they refuse.

use super::*;

fn context() -> Value {
    Value::from(Serde(serde_json::json!({
        "input": { "name": "Zoë & co/1", "n": 7, "list": [1, "a"], "nothing": null, "quote": "\"\\\n" },
        "job": { "id": "j" },
    })))
}

fn plain(source: &str) -> Result<String, String> {
    render(Style::Plain, source, &context())
}

#[test]
fn d06_values_come_from_the_input() {
    assert_eq!(plain("no template {% at all %} {# none #}\n").unwrap(), "no template {% at all %} {# none #}\n");
    assert_eq!(plain("{{ input.name }}, {{ input.n }}, {{ job.id }}\n").unwrap(), "Zoë & co/1, 7, j\n");
    assert_eq!(plain("{{ input.quote | tojson }}").unwrap(), r#""\"\\\n""#);
    assert_eq!(plain("{{ input.list | tojson }} {{ input.list | length }}").unwrap(), r#"[1,"a"] 2"#);
    assert_eq!(plain("{{ 'a' if input.n == 7 else 'b' }}{{ input.nothing }}").unwrap(), "a");
    assert_eq!(plain("{{ input.missing | default('x~') | upper }}").unwrap(), "X~");
    assert_eq!(plain("{{ '}}' }}{{ input['n'] }}").unwrap(), "}}7");
}

#[test]
fn d06_values_stay_inside_their_part_of_an_address() {
    let url = |source| render(Style::Url, source, &context()).unwrap();
    assert_eq!(url("https://h/{{ input.name }}?q={{ input.n }}"), "https://h/Zo%C3%AB%20%26%20co%2F1?q=7");
    assert_eq!(url("{{ input.name | urlencode }}"), "Zo%C3%AB%20%26%20co%2F1");
    assert_eq!(url("{{ input.name | safe }}"), "Zoë & co/1");
}

#[test]
fn d06_json_keeps_types_and_stays_json() {
    let body = serde_json::json!({ "n": "{{ input.n }}", "all": "{{ input.list }}", "t": "<{{ input.quote }}>", "x": [true, "y"] });
    let filled = render_json(&body, &context()).unwrap();
    assert_eq!(filled, serde_json::json!({ "n": 7, "all": [1, "a"], "t": "<\"\\\n>", "x": [true, "y"] }));
    assert!(render_json(&serde_json::json!(["{{ input.missing }}"]), &context()).is_err());
    assert!(render_json(&serde_json::json!(["{{ input.n * 2 }}"]), &context()).is_err());
}

#[test]
fn d06_what_is_missing_or_unclear_is_said() {
    for (source, says) in [
        ("{{ input.missing }}", "does not have"),
        ("{{ missing.deeper }}", "does not have"),
        ("{{ input.list }}", "tojson"),
        ("{{ input", "line 1"),
        ("{{ input.n | shell }}", "shell"),
        ("{{ include('x') }}", "include"),
        ("{{ range(9) }}", "range"),
    ] {
        let refused = plain(source).unwrap_err();
        assert!(refused.contains(says), "{source}: {refused}");
    }
}

/// Every way to make a small template write, or hold, a large text.
#[test]
fn d06_bombs_are_refused() {
    let megabyte = Value::from(Serde(serde_json::json!({ "input": { "x": "\"".repeat(600_000) } })));
    for source in [
        // Large on the way, small in the end.
        "{{ ('x' * 50000000) | length }}",
        "{{ (input.x ~ input.x) | length }}",
        "{{ (input.x + input.x) | length }}",
        "{{ input.x ~ input.x }}",
        "{{ input.x * 1000000 }}",
        "{{ [1] * 100000000 }}",
        "{{ input.x + input.x }}",
        "{{ \"'\" ~ 'b' }}",
        "{{ '\\'' ~ 'b' }}",
        "{{ input.x }}{{ input.x }}",
        "{{ input.x | tojson | tojson | tojson }}",
        "{{ input.x | urlencode }}{{ input.x | urlencode }}",
    ] {
        assert!(render(Style::Plain, source, &megabyte).is_err(), "{source}");
    }
    assert!(plain(&"{{ job.id }}".repeat(5_000)).is_err(), "more steps than there is fuel");
    assert!(plain(&"{{ 1 }}".repeat(20_000)).is_err(), "a longer template than is read");
    assert!(plain(&format!("{{{{ {}1{} }}}}", "(".repeat(5_000), ")".repeat(5_000))).is_err(), "nested too deeply");
    assert_eq!(plain("{% set x = 1 %}{{ input.n }}").unwrap(), "{% set x = 1 %}7");
}
