"""Plans on small racks of real models, with the interlocks that they were checked against."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import load
from hwd.interlocks import NO_MOTION, Motion
from hwd.model.interlock import Interlock
from hwd.model.plan import Plan
from hwd.model.testbed import Testbed

from ..reconfigure.plans.conftest import Desk

POLATIS = "polatis-tl1 polatis-6000"


class Rack:
    """Three hosts on one switch, with the module, the loss at h0 and the sections that a test asks for."""

    link = "h0.eth0<->h1.eth0"

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, text: str) -> Testbed:
        self._path.write_text(text)
        return load(self._path).require()

    def testbed(
        self, *more: str, module: str = "100g-lr4", loss_db: float = 0.0, model: str = POLATIS, size: str = "8x8"
    ) -> Testbed:
        driver, name = model.split()
        hosts = [f"  h{number}: {{nics: {{eth0: {{module: {module}}}}}}}" for number in range(3)]
        lines = [
            "testbed: rack",
            f"switches: {{ocs1: {{driver: {driver}, model: {name}, size: {size}, address: '10.0.0.5:3082'}}}}",
            "hosts:",
            *hosts,
            "fibres:",
            f"  - {{from: h0.eth0, to: ocs1.1, loss_db: {loss_db}}}",
            "  - h1.eth0 <-> ocs1.2",
            "  - h2.eth0 <-> ocs1.3",
            *more,
        ]
        return self.load("\n".join([*lines, ""]))

    def plan(
        self,
        testbed: Testbed,
        what: str = link,
        *,
        there: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        motion: Motion = NO_MOTION,
    ) -> Plan:
        """From what the switches carry, which is nothing where `there` says nothing."""
        carried = {**dict.fromkeys(testbed.switches, ""), **(there or {})}
        return Desk(testbed).plan(what, carried, motion=motion, overrides=overrides or {})

    def found(self, plan: Plan, name: str) -> list[Interlock]:
        return [one for one in plan.interlocks if one.name == name]

    def states(self, plan: Plan, name: str) -> list[str]:
        return [one.state for one in self.found(plan, name)]


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    return Rack(tmp_path / "testbed.yaml")
