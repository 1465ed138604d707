"""Testbeds out of their text, with switches of all kinds that light can meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from hwd.config.testbed.testbed import load_testbed
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import Capabilities, PortSide

from ..capabilities import both_sides, capabilities


class NoOptions(BaseModel):
    pass


@dataclass(frozen=True)
class Spec:
    name: str
    models: Mapping[str, Callable[[str | None], Capabilities]]
    options: type[BaseModel] = NoOptions
    twin_options: type[BaseModel] = NoOptions
    default_port: int = 3082


def _crossbar(size: str | None, *, reciprocal: bool) -> Capabilities:
    return capabilities(both_sides(int(size or "16")), reciprocal=reciprocal)


def _any_to_any(size: str | None) -> Capabilities:
    ends = (PortSide(port=str(port)) for port in range(1, int(size or "16") + 1))
    return capabilities(ends, two_sided=False, reciprocal=True)


def _one_by(size: str | None) -> Capabilities:
    ends = (PortSide(port="in"), *(PortSide(port=str(port)) for port in range(1, int(size or "4") + 1)))
    return capabilities(ends, two_sided=False, reciprocal=True, loss_db_typical=0.5, loss_db_max=0.75)


SPEC = Spec(
    "oxc",
    {
        "one-way": lambda size: _crossbar(size, reciprocal=False),
        "both-ways": lambda size: _crossbar(size, reciprocal=True),
        "any": _any_to_any,
        "1xn": _one_by,
    },
)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Testbed]:
    """A testbed from its text; the first line `testbed: ...` is added."""

    def make(text: str) -> Testbed:
        path = tmp_path / "testbed.yaml"
        path.write_text(f"testbed: hand-made\n{text}")
        return load_testbed(path, {SPEC.name: SPEC}).require()

    return make


@pytest.fixture
def star(make: Callable[[str], Testbed]) -> Callable[..., Testbed]:
    """All NIC ports of some hosts on one one-way crossbar, in order."""

    def star(hosts: int, ports: int, *, size: int = 64, more: str = "") -> Testbed:
        names = [(host, port) for host in range(hosts) for port in range(ports)]
        lines = [f"switches: {{ocs1: {{driver: oxc, model: one-way, size: {size}, address: '10.0.0.5'}}}}", "hosts:"]
        for host in range(hosts):
            lines.append(f"  h{host}:\n    nics:")
            lines += [f"      eth{port}: {{module: 100g-lr4}}" for port in range(ports)]
        lines.append("fibres:")
        lines += [f"  - h{host}.eth{port} <-> ocs1.{number}" for number, (host, port) in enumerate(names, 1)]
        return make("\n".join([*lines, more]))

    return star
