"""JSON Schemas of testbed, playbook and scenario files, for editors, and of documents and MQTT messages, for programs:
made from the types that read them.

They cover shapes, words and limits. Rules over a whole file (names that must exist, fibre ends used twice, endless
sweeps) are only checked by `hwd check`.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, Field

from hwd.config.playbook.playbook_schema import Plain, PlaybookFile, StepItem
from hwd.config.scenario import DAY_S, ScenarioFile
from hwd.config.testbed.testbed_schema import (
    NAME,
    PORT_NAME,
    CompositeEntry,
    FibreEntry,
    HostEntry,
    InterlocksEntry,
    JobsEntry,
    NicEntry,
    PacketSwitchEntry,
    PassiveEntry,
    PortNoteEntry,
    ProgramEntry,
    SwitchEntry,
    TestbedFile,
)
from hwd.model.fault import Fault
from hwd.model.kinds import KINDS
from hwd_agents.wire import AnyMessage
from hwd_drivers.core.structs import json_schemas, to_json

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HOLE: Mapping[str, Any] = {"type": "string", "pattern": r"\{\{.*\}\}"}
"""An expression may take the place of any value."""

_Name = Annotated[str, Field(pattern=NAME)]


class _WholeHost(HostEntry):
    nics: dict[Annotated[str, Field(pattern=PORT_NAME)], NicEntry] = Field(default_factory=dict)


class _WholeTestbed(TestbedFile):
    """A testbed file of hwd: hosts, NIC ports, switches and the fibres between them."""

    switches: dict[_Name, SwitchEntry] = Field(default_factory=dict)
    packet_switches: dict[_Name, PacketSwitchEntry] = Field(default_factory=dict)
    passives: dict[_Name, PassiveEntry] = Field(default_factory=dict)
    composites: dict[_Name, CompositeEntry] = Field(default_factory=dict)
    hosts: dict[_Name, _WholeHost] = Field(default_factory=dict)
    fibres: list[str | FibreEntry] = Field(default_factory=list)
    ports: dict[str, PortNoteEntry] = Field(default_factory=dict)
    programs: dict[_Name, ProgramEntry] = Field(default_factory=dict)
    jobs: dict[_Name, JobsEntry] = Field(default_factory=dict)
    interlocks: InterlocksEntry = Field(default_factory=InterlocksEntry)  # type: ignore[assignment]


class _WholePlaybook(PlaybookFile):
    """A playbook of hwd: an experiment, step by step."""

    parameters: dict[str, Plain | list[Plain]] = Field(default_factory=dict)
    steps: list[StepItem] = Field(min_length=1)


class _WholeScenario(ScenarioFile):
    """A scenario of hwd: faults of twins, and their times."""


SCHEMAS = ("testbed", "playbook", "scenario", "document", "message")


def json_schema(kind: str) -> dict[str, Any]:
    """The schema of one of `SCHEMAS`, the same at every call."""
    if kind == "testbed":
        schema = _made(_WholeTestbed)
        for section in schema["properties"].values():
            if section.get("type") in ("object", "array"):
                section["type"] = [section["type"], "null"]  # a section may be empty
        return {"$schema": DIALECT, **schema}
    if kind == "scenario":
        return {"$schema": DIALECT, **_scenario()}
    if kind == "document":
        return {"$schema": DIALECT, **_document()}
    if kind == "message":
        (message,), values = _structs([AnyMessage])
        return {"$schema": DIALECT, **message, "$defs": values}
    schema = _made(_WholePlaybook)
    definitions: dict[str, Any] = schema["$defs"]
    for name, definition in definitions.items():
        if not name.endswith("Item"):  # the value of a step's key is a mapping, and no expression
            _let_holes(definition, definitions)
    swept: dict[str, Any] = definitions["SweepItem"]["properties"]["sweep"]["patternProperties"]
    swept |= {pattern: _or_hole(below) for pattern, below in swept.items()}
    schema["properties"]["within_s"] = _or_hole(schema["properties"]["within_s"])
    faults = _faults()
    for definition in faults.values():
        _let_holes(definition, {}, but="fault")
    definitions["FaultItem"]["properties"]["fault"] = {
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in sorted(faults)]
    }
    return {"$schema": DIALECT, **schema, "$defs": dict(sorted((definitions | faults).items()))}


def struct_schemas(types: Sequence[Any], *, ref_template: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schemas of these types, and those of the structs in them by name. Docstrings have no indentation of ours, as
    from Python 3.13 on.
    """
    schemas, components = json_schemas(types, ref_template=ref_template)
    for component in components.values():
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
    return list(schemas), components


def _faults() -> dict[str, Any]:
    _, made = struct_schemas([Fault], ref_template="#/$defs/Fault{name}")
    components: dict[str, Any] = msgspec.json.decode(to_json(made))  # defaults of tuples are lists in JSON
    _drop_titles(components)
    return {f"Fault{name}": definition for name, definition in components.items()}


def _scenario() -> dict[str, Any]:
    """A fault of a switch may omit the switch, for a twin that is served alone."""
    schema = _made(_WholeScenario)
    faults = _faults()
    moment = {"type": "number", "minimum": 0, "maximum": DAY_S, "description": "seconds since the twins are up"}
    for definition in faults.values():
        definition["properties"]["at_s"] = moment
        definition["required"] = ["at_s", *(name for name in definition["required"] if name != "switch")]
    schema["properties"]["faults"]["items"] = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in sorted(faults)]}
    return {**schema, "$defs": dict(sorted(faults.items()))}


def _document() -> dict[str, Any]:
    """A document of one of `KINDS`: the schema of its `data` follows from its `kind`."""
    data, definitions = _structs(list(KINDS.values()))
    number = {"type": "integer"}
    documents = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "at_ns": number, "wall_ns": number, "data": fact},
            "required": ["kind", "at_ns", "wall_ns", "data"],
        }
        for kind, fact in zip(KINDS, data, strict=True)
    ]
    return {"anyOf": documents, "$defs": definitions}


def _structs(types: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    made = struct_schemas(types, ref_template="#/$defs/{name}")
    schemas, components = msgspec.json.decode(to_json(made))
    _drop_titles(components)
    return schemas, dict(sorted(components.items()))


def _made(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    _drop_titles(schema)
    return schema


def _drop_titles(schema: Any) -> None:
    """Titles only repeat the name of the key."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for value in schema.values():
            _drop_titles(value)
    elif isinstance(schema, list):
        for value in schema:
            _drop_titles(value)


def _let_holes(definition: dict[str, Any], definitions: Mapping[str, Any], *, but: str = "") -> None:
    """Let every value be an expression, except plain text, which may contain one anyway, and mappings."""
    for name, schema in definition.get("properties", {}).items():
        if name != but and _takes_hole(schema, definitions):
            definition["properties"][name] = _or_hole(schema)


def _takes_hole(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    if (name := schema.get("$ref", "").removeprefix("#/$defs/")) and name:
        return "enum" in definitions[name]
    return schema.get("type") not in ("string", "object")


def _or_hole(schema: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {key: schema[key] for key in ("description", "default") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    options: list[Any] = rest["anyOf"] if list(rest) == ["anyOf"] else [rest]
    return {**about, "anyOf": [*options, dict(_HOLE)]}
