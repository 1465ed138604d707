"""Drivers, their models and options, from the registry."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from docs.generate.pages import code, table
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import DriverSpec

PACKAGE = "hwd-drivers"
"""Other installed packages are not part of these pages."""


def overview() -> str:
    """Each model of each driver, at the size that is used for its checks."""
    rows = (_model(spec, model) for spec in _specs() for model in spec.models)
    head = ("driver", "model", "size, as checked", "ends", "loss", "settles in", "moves ports in use", "also")
    return table(head, rows)


def options() -> str:
    """Options of a testbed file for a switch and for its twin."""
    return "\n".join(part for spec in _specs() for part in _section(spec))


def _specs() -> Iterator[DriverSpec]:
    for name in registry.names():
        if registry.distribution_of(name) == PACKAGE:
            yield registry.find(name)


def _model(spec: DriverSpec, model: str) -> tuple[str, ...]:
    found = spec.capabilities(model, spec.sizes.get(model))
    loss = f"{found.loss_db_typical:g} dB, at most {found.loss_db_max:g}"
    return (
        code(spec.name),
        code(model),
        spec.sizes.get(model, ""),
        _ends(found),
        loss,
        f"{found.settle_s * 1e3:g} ms",
        "yes" if found.moves_in_use else "no",
        _also(found),
    )


def _ends(found: Capabilities) -> str:
    if found.elements:
        states = sorted({len(element.states) for element in found.elements})
        many = f"{len(found.elements)} elements" if len(found.elements) > 1 else "1 element"
        return f"{len(found.ends)}: {many} of {' or '.join(map(str, states))} states"
    return f"{len(found.ends)}, {'two-sided' if found.two_sided else 'any to any'}"


def _also(found: Capabilities) -> str:
    """Abilities besides crossconnects, in words."""
    words = {
        "power monitors": found.monitored,
        "holds ends dark": found.blockable,
        "attenuators": found.attenuated,
        "reports its state before a change": found.reports_before,
        "keeps its crossconnects without power": found.latching,
        "one way only": not found.reciprocal,
        f"bears {found.input_max_dbm} dBm at an input": found.input_max_dbm is not None,
    }
    return ", ".join(word for word, there in words.items() if there)


def _section(spec: DriverSpec) -> Iterator[str]:
    port = f" Port {spec.default_port} where an address names none." if spec.default_port else ""
    yield f"### {spec.name}\n"
    yield f"Evidence: {spec.evidence.value}.{port}\n"
    for title, schema in (("options", spec.options), ("twin: options", spec.twin_options)):
        if rows := list(_fields(schema)):
            yield table((f"{code(title)}", "means", "default"), rows)


def _fields(schema: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    for name, field in schema.model_fields.items():
        default = field.get_default(call_default_factory=True)
        told = "" if default is PydanticUndefined or default is None else code(_text(default))
        yield code(name), field.description or "", told


def _text(value: object) -> str:
    """Write a value as a testbed file does."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
