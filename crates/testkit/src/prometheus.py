# Reads what Punctual exposes as Prometheus would, and says as JSON what it found.
import json
import sys

import promql_parser
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def figures(path):
    """The families of a text of figures; anything that is not OpenMetrics ends this with an error."""
    with open(path, encoding="utf-8") as file:
        families = list(text_string_to_metric_families(file.read()))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), f"a family comes twice: {names}"
    return [
        {
            "name": family.name,
            "type": family.type,
            "help": family.documentation,
            "samples": [{"name": it.name, "labels": it.labels, "value": it.value} for it in family.samples],
        }
        for family in families
    ]


def parts(node):
    """The expressions that an expression is made of."""
    below = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "param", "vector_selector", "args")]
    flat = [it for part in below for it in (part if isinstance(part, list) else [part])]
    return [it for it in flat if isinstance(it, promql_parser.Expr)]


def selectors(node):
    """All selectors below an expression: what they name, and the labels they ask for."""
    if isinstance(node, promql_parser.VectorSelector):
        matchers = node.matchers.matchers
        return [{"name": node.name, "labels": sorted({it.name for it in matchers} - {"__name__"})}]
    return [found for part in parts(node) for found in selectors(part)]


def groupings(node):
    """All aggregations below an expression: the labels they keep, and the names below them."""
    found = [deeper for part in parts(node) for deeper in groupings(part)]
    if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
        names = sorted({it["name"] for it in selectors(node.expr)})
        found.append({"labels": list(node.modifier.labels), "names": names})
    return found


def read(where, source):
    """An expression, with what a dashboard fills in."""
    parsed = promql_parser.parse(source.replace("$__rate_interval", "5m"))
    used = selectors(parsed)
    assert used, f"{where}: names nothing: {source}"
    return {"where": where, "selectors": used, "groupings": groupings(parsed)}


def expressions(dashboard, rules):
    with open(dashboard, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    with open(rules, encoding="utf-8") as file:
        alerts = [rule for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]
    shown = [read(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]
    watched = [read(rule["alert"], rule["expr"]) for rule in alerts]
    return {"expressions": shown + watched, "alerts": alerts}


if __name__ == "__main__":
    what = {"figures": figures, "expressions": expressions}[sys.argv[1]]
    print(json.dumps(what(*sys.argv[2:])))
