"""Calls of the HTTP API, their bodies and their answers, from its OpenAPI document; titles and statuses of errors, from
the errors themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from docs.generate.pages import code, table
from hwd.web.access import ANSWERS, BODIES, CALLS
from hwd.web.app import make_app
from hwd.web.bodies import REFERENCE
from hwd.web.problem import problem_of
from hwd.web.service import Service
from hwd_drivers.core import errors
from hwd_drivers.core.structs import json_schemas


def openapi() -> dict[str, Any]:
    """No call is made, so the services behind the paths may be missing."""
    app = make_app(cast(Service, None), version="-")
    return app.openapi()


def calls() -> str:
    return table(("call", "who may", "takes", "answers", "does"), _calls(openapi()))


def bodies() -> str:
    """A row for each field of what calls take."""
    rows = []
    for name, field, schema, needed in _fields(BODIES):
        default = "needed" if needed else code(_json(schema.get("default")))
        rows.append((code(name), code(field), kind_of(schema), default, _limits(schema)))
    return table(("body", "field", "is", "default", "limits"), rows)


def answers() -> str:
    """A row for each answer and each object within one."""
    schemas = json_schemas(ANSWERS, ref_template=REFERENCE)[1]
    rows = [(code(name), one.get("description", "")) for name, one in sorted(schemas.items()) if "enum" not in one]
    return table(("answer", "is"), rows)


def answer_fields() -> str:
    """A row for each field of an answer. A field that may be UNSET has neither a default nor is it required."""
    rows = []
    for name, field, schema, needed in _fields(ANSWERS):
        present = "always" if needed or "default" in schema else "where it applies"
        rows.append((code(name), code(field), kind_of(schema), present))
    return table(("answer", "field", "is", "present"), rows)


def problems() -> str:
    """Statuses of HTTP and of the command line for each title."""
    rows = []
    for kind in _kinds():
        if issubclass(kind, errors.DeviceError):
            error: errors.HwdError = kind("", device="ocs1", command="", code="IIAC", text="")
        else:
            error = kind("")
        one = problem_of(error)
        rows.append((str(one.status), code(one.title), str(one.exit_status), _first(kind.__doc__)))
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


def _fields(kinds: Iterable[type]) -> Iterator[tuple[str, str, dict[str, Any], bool]]:
    """Type, field, schema, and whether it is required, of these types and those within them, in the order of names."""
    schemas = json_schemas(kinds, ref_template=REFERENCE)[1]
    words = {name: schema for name, schema in schemas.items() if "enum" in schema}  # they stand with each field
    for name in sorted(schemas.keys() - words.keys()):
        for field, schema in schemas[name]["properties"].items():
            yield name, field, _with_words(schema, words), field in schemas[name].get("required", [])


def _with_words(schema: dict[str, Any], words: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema with the words of an enumeration in place of its name."""
    named = words.get(schema.get("$ref", "").rsplit("/", 1)[-1], {})
    either = {"anyOf": [_with_words(one, words) for one in schema["anyOf"]]} if "anyOf" in schema else {}
    return {key: one for key, one in schema.items() if key != "$ref" or not named} | named | either


def _calls(document: dict[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            takes = [f"`?{one['name']}`" for one in call.get("parameters", []) if one["in"] == "query"]
            takes += [f"`{one['name']}:`" for one in call.get("parameters", []) if one["in"] == "header"]
            content = call.get("requestBody", {}).get("content", {}).get("application/json", {})
            if content:
                takes.insert(0, kind_of(content["schema"]))
            elif files := call.get("requestBody", {}).get("content", {}):
                takes.insert(0, f"a file as {', '.join(map(code, files))}")
            answer: dict[str, Any] = next((one for status, one in call["responses"].items() if status[0] == "2"), {})
            shown = answer.get("content", {}).get("application/json", {}).get("schema")
            gives = kind_of(shown) if shown else ""
            name = f"{method.upper()} {path}"
            yield code(name), str(CALLS[name]), ", ".join(takes), gives, call.get("description", "")


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
    found = [words[key].format(shape[key]) for shape in shapes for key in words if key in shape]
    return ", ".join("at least 1 item" if one == "at least 1 items" else one for one in found)


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
