"""The values of a sweep: lists and ranges, and every combination of them."""

import math

from hwd.config.playbook.expression import Scalar
from hwd.config.playbook.parameters import plain_value
from hwd.config.playbook.playbook_schema import SWEPT_MAX, VARIABLE, RangeEntry
from hwd.config.yaml.file_problem import Where
from hwd.config.yaml.tree import Node, Reading
from hwd.config.yaml.validate import matches, validate
from hwd_drivers.core.errors import ConfigError

ROUNDS_MAX = 10_000
"""Combinations of one sweep."""


def swept(reading: Reading, node: Node, where: Where) -> dict[str, tuple[Scalar, ...]] | None:
    """Variables with their values; None, with the problems reported, where one cannot be used."""
    found: dict[str, tuple[Scalar, ...]] = {}
    entries = node.mapping()
    if not entries:
        reading.add(
            where, "names no variable; write sweep: {pairs: [1, 4, 16]}, or {dwell_s: {from: 0, to: 5, step: 0.5}}"
        )
    for name, below in entries.items():
        if not matches(VARIABLE, name) or name in ("last", "run", "true", "false"):
            reading.add(
                (*where, name), "is no name for a variable: letters, digits and _, and none that expressions use"
            )
        elif (values := _values(reading, below, (*where, name))) is not None:
            found[name] = values
    if len(found) < len(entries) or not found:
        return None
    rounds = math.prod(len(values) for values in found.values())
    if rounds > ROUNDS_MAX:
        reading.add(where, f"{rounds} combinations are over the {ROUNDS_MAX} of one sweep; take fewer values")
        return None
    return found


def _values(reading: Reading, node: Node, where: Where) -> tuple[Scalar, ...] | None:
    if isinstance(node.value, dict):
        entry = validate(RangeEntry, node, where, reading)
        return _range(reading, entry, where) if entry else None
    try:
        values = plain_value(node)
    except ConfigError as error:
        reading.add(
            where, "needs a list of values, or {from: 1, to: 16, step: 1}" if node.value is None else str(error)
        )
        return None
    if not isinstance(values, tuple):
        reading.add(where, "needs a list of values, or {from: 1, to: 16, step: 1}")
        return None
    return values


def _range(reading: Reading, entry: RangeEntry, where: Where) -> tuple[Scalar, ...] | None:
    if entry.step == 0 or (entry.last - entry.first) * entry.step < 0:
        reading.add(where, f"never gets from {entry.first} to {entry.last} by steps of {entry.step}")
        return None
    count = math.floor((entry.last - entry.first) / entry.step + 1e-9) + 1
    if count > SWEPT_MAX:
        reading.add(where, f"{count} values are over the {SWEPT_MAX} of one variable; take a larger step")
        return None
    values = (entry.first + index * entry.step for index in range(count))
    return tuple(round(value, 9) if isinstance(value, float) else value for value in values)
