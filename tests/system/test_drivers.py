"""The demo's experiment on real processes, with every driver that has a two-sided matrix in place of its own."""

import re
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import PortSide
from hwd_drivers.devices import registry

ROOT = Path(__file__).parents[2]
TESTBED = (ROOT / "examples/opus-testbed.yaml").read_text(encoding="utf-8")
PLAYBOOK = ROOT / "playbooks/reconfiguration-timeline.yaml"
NEEDED = frozenset(PortSide.parse(f"{port}{side}") for port in range(1, 17) for side in "AB")
"""What the fibres of that testbed end at."""
SIZES = ("32x32", "32", "16x16", "16", None)


def matrix_of(driver: str) -> tuple[str, str | None] | None:
    """A model and a size of this driver that hold the testbed's fibres, any end to any on the other side."""
    spec = registry.find(driver)
    for model in spec.models:
        for size in SIZES:
            try:
                capabilities = spec.capabilities(model, size)
            except ConfigError:
                continue  # not a size of this model
            if capabilities.two_sided and not capabilities.elements and frozenset(capabilities.ends) >= NEEDED:
                return model, size
    return None


MATRICES = {driver: found for driver in registry.installed().specs if (found := matrix_of(driver)) is not None}


def rack_with(driver: str) -> str:
    model, size = MATRICES[driver]
    stated = f"driver: {driver}\n    model: {model}\n" + ("" if size is None else f"    size: {size}\n")
    text, count = re.subn(r"driver: polatis-tl1\n    model: polatis-6000\n    size: 32x32\n", stated, TESTBED)
    assert count == 1
    return text.replace("testbed: opus-testbed", "testbed: lab")


def test_all_polatis_protocols_and_calient_are_among_them() -> None:
    assert {"polatis-tl1", "polatis-scpi", "polatis-netconf", "polatis-restconf"} <= set(MATRICES)
    assert {"calient-tl1", "calient-rest", "sonic-ocs"} <= set(MATRICES)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("driver", MATRICES)
async def test_the_experiment_of_the_demo_runs_with(lab, driver: str) -> None:  # type: ignore[no-untyped-def]
    await lab.up(text=rack_with(driver))
    said = await lab.hwd("run", str(PLAYBOOK), "-D", "repeats=1", "--json")
    assert said.status == 0, f"{said.err}\n{lab.words()}"
    shown = await lab.hwd("show", said.json["run"], "--json")
    assert shown.json["outcome"] == "succeeded"
    links = [link for timeline in shown.json["timelines"] for link in timeline["links"]]
    seconds = [stage["seconds"] for link in links for stage in link["stages"] if stage["name"] == "turnaround"]
    assert len(seconds) == 16, "eight links in each of two reconfigurations"
    assert all(0.1 < each < 15 for each in seconds), seconds
    assert shown.json["overruns"] == []
    assert not re.search(r"Traceback|garbled|cannot parse", lab.words()), lab.words()
