from html import escape
from typing import Any, cast

import msgspec
import pytest

from hwd.client.wanted import Wanted, body_of
from hwd.model.bodies import ReconfigurationBody
from hwd.model.daemon import JournalGivenUp
from hwd.model.lease import HeldLease
from hwd.model.plan_summary import PlanSummary
from hwd.model.reconfiguration import LeftOpen, ReconfigurationStatus
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.status import Alert, Status
from hwd.model.switch import SwitchStatus
from hwd.testing.lab import Lab
from hwd_drivers.core.structs import from_plain

SWITCH: dict[str, Any] = {
    "switch": "ocs1",
    "owner": None,
    "up": False,
    "cause": "<b>no session</b>",
    "crossconnects": [{"id": "1A-2B", "state": "tuned"}],
}
RUN: dict[str, Any] = {
    "id": "k3v9",
    "playbook": "smoke",
    "testbed": "desk",
    "version": "0.1.0",
    "outcome": None,
    "why": "",
    "parameters": {"within_s": 3},
    "started_wall_ns": 1_000_000_000,
    "ended_wall_ns": None,
    "safe_state": None,
}


def test_fields_of_a_newer_daemon_are_ignored() -> None:
    switch = from_plain(SWITCH | {"shape": "round"}, SwitchStatus)
    assert switch == from_plain(SWITCH, SwitchStatus)
    assert (switch.name, switch.cause, switch.crossconnects) == ("ocs1", "<b>no session</b>", ("1A-2B",))


def test_what_a_switch_says_of_itself_cannot_break_a_page() -> None:
    html = from_plain(SWITCH, SwitchStatus)._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;no session" in html


def test_a_run_says_how_long_it_took_when_it_has_ended() -> None:
    began = from_plain(RUN, RunSummary)
    assert began.seconds is None
    assert repr(began) == "<run k3v9 smoke under way>"
    assert str(from_plain(RUN | {"state": "paused"}, RunSummary)) == "run k3v9 smoke paused"
    ended = from_plain(RUN | {"outcome": "failed", "why": "step 2", "ended_wall_ns": 3_500_000_000}, Run)
    assert ended.seconds == 2.5
    assert str(ended) == "run k3v9 smoke failed: step 2"
    assert "2.5 s" in ended._repr_html_()
    assert "within_s=3" in ended._repr_html_()


def test_what_was_given_up_says_how_its_switches_stand() -> None:
    one = JournalGivenUp(reconfiguration="r1", run=None, what="ring", why="x", by="ada", left=["ocs1: 1A-4B failed"])
    assert (one.id, str(one)) == ("r1", "r1 (ring) given up: ocs1: 1A-4B failed")
    assert one._repr_html_() == "<p>r1 (ring) given up: ocs1: 1A-4B failed</p>"


def test_a_word_that_a_call_does_not_know_is_refused_with_those_that_it_has() -> None:
    words = r"unexpected keyword argument: hash\. There are what, file, restore, before, mode"
    with pytest.raises(TypeError, match=words):
        body_of(ReconfigurationBody, cast(Wanted, {"hash": "a" * 12}))


def test_an_apply_by_a_hash_knows_only_what_a_plan_leaves_open(lab: Lab) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument: mode\. There are drain_within_s"):
        lab.client.apply_hash("a" * 12, mode="safe")  # type: ignore[call-arg]


def test_what_the_daemon_answers_reads_as_one_line(lab: Lab) -> None:
    plan = lab.client.plan(what="ring rail=0", lease=lab.lease.id)
    assert isinstance(plan, PlanSummary)
    assert repr(plan) == f"<PlanSummary {plan}>"
    assert str(plan) == f"plan {plan.hash} (ring rail=0): 2 links move, 0 go dark"
    applied = lab.client.apply_hash(plan.hash)
    assert isinstance(applied, ReconfigurationStatus)
    assert str(applied) == f"{applied.id} (ring rail=0) confirmed, 2 links"
    assert lab.client.plan(what="ring rail=0", lease=lab.lease.id).empty
    status = msgspec.structs.replace(lab.status(), alerts=[])  # a busy machine may have lost events
    assert isinstance(status, Status)
    assert str(status) == "testbed pytest: 1 of 1 switches up, 2 of 2 hosts up, 2 links, 1 lease, 0 under way"
    left = LeftOpen(
        reconfiguration="k3v9", run=None, what="ring", why="x", tried_wall_ns=None, goes="back", ports=["ocs1:1A"]
    )
    assert str(msgspec.structs.replace(status, open=[left])).endswith("0 under way, 1 left open")
    assert {str(host).partition(",")[0] for host in status.hosts} == {"h0 up", "h1 up"}
    assert isinstance(status.leases[0], HeldLease)
    assert status.leases[0].holder.endswith("test_what_the_daemon_answers_reads_as_one_line")
    assert all(one in status._repr_html_() for one in ("ocs1", "h1", *map(escape, applied.links)))
    (changed,) = [one.last_change for one in status.switches]
    assert changed is not None
    assert changed.by == f"lease {lab.lease.id} of {lab.lease.holder}"
    alert = Alert(name="SwitchDown", severity="critical", subject="ocs1", since_wall_ns=1, summary="has no session")
    alarmed = msgspec.structs.replace(status, alerts=[alert])
    assert str(alarmed).endswith("0 under way, 1 alert")
    assert "critical, ocs1: has no session" in alarmed._repr_html_()
    assert escape(str(changed)) in alarmed._repr_html_()
    assert "h0.eth0&lt;-&gt;h1.eth1" in plan._repr_html_()
