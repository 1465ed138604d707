"""Every playbook of hwd succeeds on its testbed, in virtual time, and shows what it says."""

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import bundle_playbook
from hwd.daemon.installed_drivers import check, load
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationStarted
from hwd.model.run_facts import RunAssert, RunEnded, RunHost, RunNote
from hwd.model.timeline import Timeline
from hwd.sim.world import World
from hwd_drivers.core.documents import Document
from hwd_drivers.twins.virtual_time import run_virtual

from ..sim.lab import of_type
from ..virtual_time import SELDOM_S

TREE = Path(__file__).parents[2]
MADE_FOR = {
    "smoke": "two-hosts",
    "reconfiguration-timeline": "opus-testbed",
    "turnaround-by-pairs": "mfabric-testbed",
    "nic-activation": "mfabric-testbed",
    "mfabric-timeline": "mfabric-testbed",
    "opus-timeline": "opus-testbed",
    "rapid-repeats": "two-hosts",
    "soak": "two-hosts",
    "time-slots": "opus-testbed",
    "mfabric-training": "mfabric-training",
    "mfabric-activation": "mfabric-training",
}

Shown = list[Document]
Show = Callable[..., Shown]


@pytest.fixture
def show() -> Show:
    """Runs a shipped playbook to its end, which must be a success; returns what was told."""

    def show(name: str, **parameters: str) -> Shown:
        path = TREE / "examples" / f"{MADE_FOR[name]}.yaml"
        testbed = load(path).require()

        async def main() -> list[Document]:
            async with World(testbed, path.read_text(), seed=7, light_every_s=SELDOM_S) as world:
                text = bundle_playbook(TREE / "playbooks" / f"{name}.yaml", parameters)
                await world.run_playbook(text, file=f"{name}.yaml", parameters=parameters)
            return world.documents

        documents = run_virtual(main(), seed=7)
        assert [data.why for data in of_type(documents, RunEnded)] == [""]
        return documents

    return show


def stage_s(documents: Shown, name: str, whats: str = "") -> list[float]:
    """Seconds of a stage of all links that moved."""
    return [
        stage.seconds
        for timeline in of_type(documents, Timeline)
        if whats in timeline.what
        for link in timeline.links
        for stage in link.stages
        if stage.name == name and stage.seconds is not None and not link.kept
    ]


def commands_s(documents: Shown) -> list[float]:
    """Seconds of each command of a switch, from its first byte to the answer."""
    return [
        (one.acknowledged_ns - one.commanded_ns) / 1e9
        for one in of_type(documents, ReconfigurationCommanded)
        if one.acknowledged_ns is not None and one.commanded_ns is not None
    ]


def test_every_shipped_playbook_has_a_testbed_and_is_sound_on_it() -> None:
    assert {path.stem for path in (TREE / "playbooks").glob("*.yaml")} == MADE_FOR.keys()
    for name, testbed in MADE_FOR.items():
        first = (TREE / "playbooks" / f"{name}.yaml").read_text().splitlines()[0]
        assert first.startswith("# "), "it opens with what it shows"
        assert check([TREE / "examples" / f"{testbed}.yaml", TREE / "playbooks" / f"{name}.yaml"]) == ()


def test_turnaround_by_pairs_moves_as_many_as_it_says_on_ports_without_light(show: Show) -> None:
    documents = show("turnaround-by-pairs", repeats="1")
    moved = [len(started.moves[0].add) for started in of_type(documents, ReconfigurationStarted)]
    assert moved == [1] * 2 + [4] * 2 + [16] * 2
    assert all(not started.links for started in of_type(documents, ReconfigurationStarted))
    control_s = commands_s(documents)
    assert len(control_s) == 6
    assert 0.02 < statistics.median(control_s) < 0.08  # mFabric, figure 10: 41 to 47 ms
    assert [note.text.partition(":")[0] for note in of_type(documents, RunNote)] == [
        "pairs 1",
        "pairs 4",
        "pairs 16",
        "6 changes",
    ]


def test_nic_activation_takes_what_the_twins_were_made_from(show: Show) -> None:
    documents = show("nic-activation", repeats="1")
    activation_s = stage_s(documents, "activation")
    assert len(activation_s) == 2 * 6
    assert 5.2 < statistics.mean(activation_s) < 6.3  # mFabric, figure 12: 5.67 s
    assert of_type(documents, RunAssert, held=True)[-1].values == {
        "run.activation.n": 12,
        "run.ready": 12,
        "run.links": 12,
    }


def test_mfabric_timeline_moves_2_4_and_6_links_between_its_own_topologies(show: Show) -> None:
    documents = show("mfabric-timeline", repeats="1")
    first, *rounds = of_type(documents, Timeline)
    assert [len(one.moved) for one in (first, *rounds)] == [6, 2, 4, 6]
    assert all(len(one.links) == 6 for one in rounds), "all twelve ports stay in use"
    demands = ["h0:h1:9,h2:h3:9,h0:h2:1,h1:h3:1", "h0:h2:9,h1:h3:9", "h0:h1:9,h2:h3:9"]
    assert [one.what for one in rounds] == [f"mfabric demand={demand}" for demand in demands]
    made = [len(started.moves[0].add) for started in of_type(documents, ReconfigurationStarted)]
    assert made == [12, 4, 8, 12], "a link is a crossconnect each way"
    control_s = commands_s(documents)
    assert len(control_s) == 4
    assert 0.02 < statistics.median(control_s) < 0.08  # mFabric, figure 10: 42 to 47 ms
    activation_s = stage_s(documents, "activation")
    assert len(activation_s) == 6 + 2 + 4 + 6
    assert 5.2 < statistics.mean(activation_s) < 6.3  # mFabric, figure 12: 5.67 s
    (note,) = of_type(documents, RunNote)
    assert note.text.startswith("4 reconfigurations: control 4")
    assert " ms on average; 18 activations: 5." in note.text


@pytest.mark.slow
def test_opus_timeline_is_slower_with_autonegotiation_and_puts_it_back(show: Show) -> None:
    documents = show("opus-timeline", repeats="1")
    timelines = of_type(documents, Timeline)
    assert len(timelines) == 6
    on_s, off_s = (
        [
            stage.seconds
            for timeline in part
            for link in timeline.links
            for stage in link.stages
            if stage.name == "firmware" and stage.seconds is not None
        ]
        for part in (timelines[1:3], timelines[4:6])
    )
    assert 5 < statistics.median(on_s) < 7  # Opus, figure 9
    assert 2.5 < statistics.median(off_s) < 4
    assert len(of_type(documents, RunHost, action="autoneg")) == 2 * 16
    assert [one.sweep for one in timelines] == [{"negotiates": "on"}] * 3 + [{"negotiates": "off"}] * 3
    assert [{setting["autoneg"] for setting in one.settings.values()} for one in timelines] == [{True}] * 3 + [
        {False}
    ] * 3
    assert all(len(one.settings) == 16 for one in timelines)
    assert [one.breaches for one in timelines] == [[]] * 6
    # Links that stayed went down with the NICs that the run set, some so late that the next reconfiguration sees it.
    assert all("was set, autoneg" in text for timeline in timelines for text in timeline.explained)
    back = of_type(documents, RunHost, action="put-back")
    assert {one.port for one in back} == {f"h{host}.eth{port}" for host in range(4) for port in range(4)}


def test_rapid_repeats_are_slower_the_sooner(show: Show) -> None:
    documents = show("rapid-repeats", dwells_s="0.5,4")
    dwells = [
        (link.dwell_s, stage.seconds)
        for timeline in of_type(documents, Timeline)
        for link in timeline.links
        for stage in link.stages
        if stage.name == "firmware" and "pairs" in timeline.what
        if link.dwell_s is not None and stage.seconds is not None
    ]
    soon = [seconds for dwell_s, seconds in dwells if dwell_s < 1]
    late = [seconds for dwell_s, seconds in dwells if dwell_s > 3]
    assert len(soon) == len(late) == 2
    assert min(soon) > 8  # Opus, section 5.1: up to about 10 s
    assert max(late) < 6


def test_soak_asserts_every_round(show: Show) -> None:
    documents = show("soak", rounds="2")
    assert [one.held for one in of_type(documents, RunAssert)] == [True] * 5
    assert of_type(documents, RunNote)[-1].text.startswith("8 links in 4 reconfigurations: slowest ")


@pytest.mark.parametrize(("name", "parameters"), [("smoke", {}), ("reconfiguration-timeline", {"repeats": "1"})])
def test_two_topologies_are_timed(show: Show, name: str, parameters: dict[str, str]) -> None:
    assert len(of_type(show(name, **parameters), Timeline)) == 2


@pytest.mark.parametrize("schedule", ["rotor", "opera"])
def test_time_slots_join_every_two_hosts_of_a_rail_in_a_round(show: Show, schedule: str) -> None:
    documents = show("time-slots", schedule=schedule, rounds="1", slots="6", dwell_s="0.1")
    applied = of_type(documents, ReconfigurationStarted)
    assert [one.what for one in applied] == [f"{schedule} slot={slot}" for slot in range(6)]
    joined = {tuple(end.partition(".")[0] for end in link.link.split("<->")) for one in applied for link in one.links}
    assert joined == {*itertools.combinations(("h0", "h1", "h2", "h3"), 2)}
