"""A scenario sets its faults at their times, once or over and over."""

import asyncio
import logging

import pytest

from hwd.config.scenario import load_scenario
from hwd.config.yaml.tree import parse_tree
from hwd.model.fault import Fault
from hwd.twin.faults.scenario_player import play
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.twins.virtual_time import run_virtual

TEXT = """\
scenario: s
faults:
  - {at_s: 5, fault: stick, ends: [1A]}
  - {at_s: 1.5, fault: slow, seconds: 0.5}
  - {at_s: 5, fault: clear}
"""


class Told:
    """Remembers what it was told, and when; refuses to be stuck if it is to."""

    def __init__(self, *, refuses: str = "") -> None:
        self.told: list[str] = []
        self._refuses = refuses

    def set(self, fault: Fault) -> None:
        if self._refuses and self._refuses in str(fault):
            raise RefusedError("not now")
        self.told.append(f"{asyncio.get_running_loop().time():g} {fault}")

    def present(self) -> tuple[Fault, ...]:
        return ()


def run(text: str, faults: Told, *, for_s: float = 100.0) -> None:
    async def main() -> None:
        scenario = load_scenario(parse_tree(text, file="s.yaml"), switch="ocs1").require()
        try:
            async with asyncio.timeout(for_s):
                await play(scenario, faults)
        except TimeoutError:
            return

    run_virtual(main())


def test_faults_are_set_at_their_times_and_all_begins_anew_every_so_often_without_drifting_away() -> None:
    faults = Told()
    run(TEXT, faults)
    assert faults.told == ["1.5 ocs1 slow seconds=0.5", "5 ocs1 stick ends=1A", "5 ocs1 clear"]
    faults = Told()
    run(TEXT + "every_s: 7\n", faults, for_s=20)
    assert [one.split()[0] for one in faults.told] == ["1.5", "5", "5", "8.5", "12", "12", "15.5", "19", "19"]


def test_what_cannot_be_set_is_said_with_its_line_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    faults = Told(refuses="stick")
    with caplog.at_level(logging.WARNING):
        run(TEXT, faults)
    assert faults.told == ["1.5 ocs1 slow seconds=0.5", "5 ocs1 clear"]
    assert "s.yaml:3: ocs1 stick ends=1A: cannot be set now: not now" in caplog.text
