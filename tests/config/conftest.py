"""Drivers as the loader sees them, and testbed files made from text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict

from hwd.config.testbed.equipment import DriverSpecLike
from hwd.config.testbed.testbed import load_testbed
from hwd.config.yaml.file_problem import Loaded
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, PortSide

from ..capabilities import both_sides, capabilities

LARGEST = 64


class CrossbarOptions(BaseModel):
    poll_s: float = 1.0
    tid: str = ""


class CrossbarTwinOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    in_use: Literal["move", "deny"] = "move"
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True)
class Spec:
    name: str
    options: type[BaseModel]
    twin_options: type[BaseModel]
    models: Mapping[str, Callable[[str | None], Capabilities]]
    default_port: int


def crossbar(size: str | None, *, reciprocal: bool = False) -> Capabilities:
    """A two-sided switch, 32x32 where no size is given."""
    match = re.fullmatch(r"(\d{1,4})x\1", size or "32x32")
    if not match:
        raise ConfigError(f"size {size!r}: write it as 32x32")
    ports = int(match[1])
    if ports > LARGEST:
        raise ConfigError(f"{ports} is over the {LARGEST} ports a side of this model")
    return capabilities(both_sides(ports), reciprocal=reciprocal, loss_db_max=2.7)


def one_by(size: str | None) -> Capabilities:
    """A 1xN selection switch: `in` to one of the others."""
    ports = int((size or "1x4").removeprefix("1x")) if re.fullmatch(r"1x\d{1,2}", size or "1x4") else 4
    ends = (PortSide(port="in"), *(PortSide(port=str(port)) for port in range(1, ports + 1)))
    of_few = {"latching": False, "atomic_batches": False, "settle_s": 0.008, "loss_db_typical": 0.6, "loss_db_max": 1.0}
    return capabilities(ends, two_sided=False, reciprocal=True, **of_few)


@pytest.fixture(scope="session")
def specs() -> dict[str, DriverSpecLike]:
    return {
        "polatis-tl1": Spec("polatis-tl1", CrossbarOptions, CrossbarTwinOptions, {"polatis-6000": crossbar}, 3082),
        "osw": Spec("osw", CrossbarOptions, CrossbarOptions, {"1x4": one_by}, 0),
    }


@pytest.fixture
def load(tmp_path: Path, specs: dict[str, DriverSpecLike]) -> Callable[[str], Loaded[Testbed]]:
    """Loads a testbed from its text."""

    def load(text: str) -> Loaded[Testbed]:
        path = tmp_path / "testbed.yaml"
        path.write_text(text)
        return load_testbed(
            path, specs, switch_timings=lambda: {"polatis-opus", "ideal"}, host_timings=lambda: {"opus-cx6dx", "ideal"}
        )

    return load


@pytest.fixture(scope="session")
def opus(specs: dict[str, DriverSpecLike]) -> Testbed:
    """The testbed of the Opus paper, as the examples have it."""
    return load_testbed(Path(__file__).parents[2] / "examples" / "opus-testbed.yaml", specs).require()


def said(loaded: Loaded[Testbed]) -> list[str]:
    """Problems without the name of the file."""
    return [str(problem).partition("testbed.yaml:")[2] for problem in loaded.problems]
