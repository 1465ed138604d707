"""What hosts tell of their switches, in the order in which it comes: not always that in which it was."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hwd.daemon.installed_drivers import load
from hwd.hosts.switch_documents import HostSwitches
from hwd_agents.wire import Delegate, SwitchState
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document

from ..telemetry.conftest import host_event

TESTBED = """
testbed: one
switches:
  tx0: {driver: osw, model: osw, size: 1x4, owner: h0, address: /dev/ttyUSB0}
  rx0: {driver: osw, model: osw, size: 1x4, owner: h0, address: /dev/ttyUSB1}
hosts:
  h0: {nics: {eth0: {ip: 10.1.0.1/32, module: 100g-lr4}}}
fibres:
  - h0.eth0.tx -> tx0.in
  - tx0.1 -> h0.eth0.rx
"""


def answered(crossconnect: str, state: str) -> SwitchState:
    """A switch with one crossconnect, as its agent answers it."""
    note = {"driver": "osw", "model": "m", "ports": [], "up": True, "vendor": "v", "serial": "s", "firmware": "f"}
    data = {"switches": {"sw": {**note, "crossconnects": [{"id": crossconnect, "state": state}]}}}
    return Delegate().answer(data).switches["sw"]


class Reports:
    """The switches of h0, by the reports of its agent."""

    def __init__(self, tmp_path: Path) -> None:
        path = tmp_path / "testbed.yaml"
        path.write_text(TESTBED)
        self.clock = SystemClock()
        self.documents: list[Document] = []
        self.switches = HostSwitches(load(path).require(), clock=self.clock, sink=self.documents.append)

    def event(self, agent_ns: int, data: dict[str, Any], *, boot: str = "b1") -> None:
        event = replace(host_event(data, "switch"), boot=boot, port=None, agent_ns=agent_ns, source="switches")
        self.switches(Document(at_ns=0, wall_ns=0, fact=event))

    def read(self, agent_ns: int, crossconnect: str, *, boot: str = "b1") -> None:
        read = {"what": "read", "switch": "tx0", "crossconnects": [{"id": crossconnect, "state": "unstated"}]}
        data = {**read, "added": [], "removed": [], "ours": True}
        self.event(agent_ns, data, boot=boot)

    def answer(self, at_ns: int, crossconnect: str) -> None:
        self.switches.take_answer("h0", "b1", {"tx0": answered(crossconnect, "unstated")}, at_ns)

    @property
    def carried(self) -> list[str]:
        return [str(one.crossconnect) for one in self.switches.crossconnects()["tx0"]]


@pytest.fixture
def reports(tmp_path: Path) -> Reports:
    return Reports(tmp_path)


def test_what_lay_in_the_spool_does_not_undo_what_the_agent_has_answered_since(reports: Reports) -> None:
    reports.answer(1_000, "in-3")
    reports.read(500, "in-2")  # set while the daemon was away
    assert reports.carried == ["in-3"]
    reports.read(2_000, "in-4")
    assert reports.carried == ["in-4"]
    reports.read(500, "in-2", boot="b2")
    assert reports.carried == ["in-2"], "of the next boot, whose clock may be behind"


def test_a_command_that_lay_in_the_spool_is_emitted_all_the_same(reports: Reports) -> None:
    reports.answer(1_000, "in-3")
    command = {"verb": "change", "outcome": "done", "seconds": 0.01, "code": "", "text": ""}
    data = {"what": "command", "switch": "tx0", **command}
    reports.event(500, data)
    assert [one.kind for one in reports.documents][-1] == "switch.command"
    assert "moved" not in reports.documents[-1].fact.to_data(), "its agent is older"
    reports.event(600, {**data, "moved": ["sel"]})
    assert reports.documents[-1].fact.to_data()["moved"] == ["sel"]


def test_an_answer_with_a_state_that_this_version_does_not_know_hides_no_other_switch(reports: Reports) -> None:
    strange, known = answered("in-2", "of-a-later-version"), answered("in-3", "unstated")
    reports.switches.take_answer("h0", "b1", {"rx0": strange, "tx0": known}, 1_000)
    assert reports.carried == ["in-3"]
    assert "rx0" not in reports.switches.crossconnects()
