"""Calls of the HTTP API and their bodies, from its OpenAPI document; titles and statuses of errors, from
the errors themselves.
"""

from collections.abc import Iterator
from typing import Any, cast

from prometheus_client import CollectorRegistry

from docs.generate.pages import code, table
from hwd.telemetry import Exposition
from hwd.web.app import make_app
from hwd.web.hub import Hub
from hwd.web.problem import problem_data
from hwd.web.service import Service
from hwd.web.stream import EventStream
from hwd_drivers.core import errors


def openapi() -> dict[str, Any]:
    """No call is made, so the services behind the paths may be missing."""
    app = make_app(
        cast(Service, None),
        metrics=lambda _: Exposition(CollectorRegistry(), openmetrics=False),
        events=_no_events(),
        version="-",
    )
    return app.openapi()


def calls() -> str:
    return table(("call", "takes", "does"), _calls(openapi()))


def bodies() -> str:
    """A row for each field of what calls take."""
    schemas = openapi()["components"]["schemas"]
    rows = []
    for name in sorted(schemas):
        if name.endswith("Error"):
            continue  # of the validation; every error of ours is a problem document
        needed = schemas[name].get("required", [])
        for field, schema in schemas[name]["properties"].items():
            default = "needed" if field in needed else code(_json(schema.get("default")))
            rows.append((code(name), code(field), kind_of(schema), default, _limits(schema)))
    return table(("body", "field", "is", "default", "limits"), rows)


def problems() -> str:
    """Statuses of HTTP and of the command line for each title."""
    rows = []
    for kind in _kinds():
        if issubclass(kind, errors.DeviceError):
            error: errors.HwdError = kind("", device="ocs1", command="", code="IIAC", text="")
        else:
            error = kind("")
        data = problem_data(error)
        rows.append((str(data["status"]), code(str(data["title"])), str(data["exit_status"]), _first(kind.__doc__)))
    return table(("status", "title", "exit status", "means"), sorted(set(rows)))


def kind_of(schema: dict[str, Any]) -> str:
    """A JSON Schema in a few words."""
    if "$ref" in schema:
        return code(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema or "const" in schema:
        return ", ".join(code(str(one)) for one in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(one) for one in schema["anyOf"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    if kind == "object" and isinstance(below := schema.get("additionalProperties"), dict):
        return f"mapping to {kind_of(below)}"
    return " or ".join(_WORDS.get(one, one) for one in ([kind] if isinstance(kind, str) else kind))


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "boolean": "true or false",
    "object": "mapping",
    "null": "null",
    "array": "list",
}


def _calls(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            takes = [f"`?{one['name']}`" for one in call.get("parameters", []) if one["in"] == "query"]
            takes += [f"`{one['name']}:`" for one in call.get("parameters", []) if one["in"] == "header"]
            content = call.get("requestBody", {}).get("content", {}).get("application/json", {})
            if content:
                takes.insert(0, kind_of(content["schema"]))
            yield code(f"{method.upper()} {path}"), ", ".join(takes), call.get("description", "")


def _limits(schema: dict[str, Any]) -> str:
    words = {
        "minLength": "at least {} long",
        "maxLength": "at most {} long",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "exclusiveMinimum": "over {}",
        "minimum": "from {}",
        "maximum": "to {}",
        "exclusiveMaximum": "under {}",
        "pattern": "`{}`",
        "description": "{}",
    }
    shapes = [schema, *(one for one in schema.get("anyOf", []))]
    return ", ".join(words[key].format(shape[key]) for shape in shapes for key in words if key in shape)


def _json(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _kinds() -> list[type[errors.HwdError]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HwdError) and kind is not errors.HwdError
    ]


def _first(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0]


def _no_events() -> EventStream:
    return EventStream(Hub(), boot="-")
