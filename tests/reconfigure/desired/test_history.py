"""What reconfigurations took so far, as a plan is told, and what was set at NICs."""

from typing import Any

import pytest

from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.model.instant import Knowledge
from hwd.model.kinds import UnreadFact, read_fact
from hwd.model.link import Link
from hwd.model.run_facts import RunHost
from hwd.model.stage import Stage, StageName
from hwd.model.timeline import LinkTimeline, Timeline
from hwd.reconfigure.desired.history import ACTIONS_MAX, TURNAROUNDS_REMEMBERED, History, HostSettings, Outcomes
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document, Fact, Json

from ..conftest import EXAMPLE


@pytest.fixture
def history() -> History:
    return History(InUse(Fabric(load_text(EXAMPLE, file="testbed.yaml").require())))


def document(fact: Fact) -> Document:
    return Document(at_ns=0, wall_ns=0, fact=fact)


def timeline(*seconds: float | None) -> Document:
    links = [
        LinkTimeline(
            link=Link.parse(f"h0.eth{number}<->h1.eth{number}"),
            kept=False,
            instants=(),
            stages=(
                Stage(name=StageName.OPTICAL, knowledge=Knowledge.SEEN, seconds=99.0),
                Stage(name=StageName.TURNAROUND, knowledge=Knowledge.SEEN, seconds=one),
            ),
            dwell_s=None,
        )
        for number, one in enumerate(seconds)
    ]
    return document(Timeline(reconfiguration="r", run=None, what="", commands=[], ends=[], links=links, breaches=[]))


def test_before_any_link_was_timed_the_slowest_switch_that_moves_counts(history: History) -> None:
    before_s, source = history.expect(["ocs1"])
    assert 0 < before_s < 1
    assert "no link has been timed yet" in source
    assert history.expect([]) == (0.0, source)
    history(timeline(3.0, 5.0))
    said = "switching time that the switches state; no link comes up by it"
    assert history.expect(["ocs1"], False) == (before_s, said)


def test_afterwards_it_is_the_median_of_the_last_that_were_seen(history: History) -> None:
    history(timeline(3.0, 5.0))
    history(timeline(4.0, None))  # one link was not seen to turn around
    assert history.expect(["ocs1"]) == (4.0, "median of the last 3 turnarounds")
    history(timeline(*[100.0] * TURNAROUNDS_REMEMBERED))
    history(timeline(*[1.0] * TURNAROUNDS_REMEMBERED))
    assert history.expect([])[0] == 1.0


def test_older_ones_are_recalled_as_far_as_there_is_room(history: History) -> None:
    history(timeline(3.0))
    history.recall(timeline(1.0, 2.0))
    assert history.expect([])[0] == 2.0
    history.recall(timeline(*[5.0] * TURNAROUNDS_REMEMBERED))
    assert history.full
    assert history.expect([])[1] == f"median of the last {TURNAROUNDS_REMEMBERED} turnarounds"
    history(timeline(*[7.0] * (TURNAROUNDS_REMEMBERED - 3)))
    assert history.expect([])[0] == 7.0
    assert history.expect([])[1] == f"median of the last {TURNAROUNDS_REMEMBERED} turnarounds", (
        "what was recalled went first"
    )


@pytest.mark.parametrize(
    "fields", [{}, {"links": None}, {"links": [{}]}, {"links": [{"stages": [{}, {"name": "turnaround"}]}]}]
)
def test_timelines_of_other_versions_that_say_nothing_of_it_are_passed_over(
    history: History, fields: dict[str, Json]
) -> None:
    history(document(read_fact("timeline", {**timeline().fact.to_data(), **fields})))
    history.recall(document(UnreadFact(kind="timeline", fields=timeline(7.0).fact.to_data())))
    assert "no link has been timed yet" in history.expect([])[1]


def test_outcomes_that_another_version_recorded_are_passed_over() -> None:
    outcomes = Outcomes(SystemClock())
    outcomes(document(UnreadFact(kind="reconfiguration.ended", fields={"reconfiguration": "r"})))
    assert (outcomes.text("r"), outcomes.last) == (None, None)


# --- NIC settings that are in force


AT_NS = 5_000_000_000


def told(action: str, *, port: str = "h0.eth0", **fields: Any) -> RunHost:
    return RunHost(run="r", host="h0", port=port, action=action, before=None, after=None, **fields)


def test_what_was_set_is_in_force_until_it_is_put_back() -> None:
    settings = HostSettings()
    settings.see(told("autoneg", value=False), at_ns=AT_NS)
    settings.see(told("mtu", value=4200), at_ns=AT_NS)
    settings.see(told("mtu", port="h1.eth0", value=9000), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0", "h2.eth0"]) == {"h0.eth0": {"autoneg": False, "mtu": 4200}}
    settings.see(told("put-back", setting="autoneg"), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0"]) == {"h0.eth0": {"mtu": 4200}}
    settings.see(told("put-back", setting="mtu"), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0"]) == {}


def test_settings_that_a_port_has_several_of_are_not_told_but_were_done() -> None:
    settings = HostSettings()
    settings.see(told("address", value="10.0.0.1/24", seconds=0.5), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0"]) == {}
    (action,) = settings.actions
    assert (action.from_ns, action.to_ns, action.words) == (4_500_000_000, 5_000_000_000, "address")


def test_only_so_many_actions_are_remembered() -> None:
    settings = HostSettings()
    for number in range(ACTIONS_MAX + 10):
        settings.see(told("put-back", setting="mtu"), at_ns=number)
    assert len(settings.actions) == ACTIONS_MAX
    assert settings.actions[-1].to_ns == ACTIONS_MAX + 9
