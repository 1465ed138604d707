"""The predicted time of a plan: from the records of its devices alone, and unknown where they are too few."""

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.circuit import Circuit, RoutedLink
from hwd.model.instant import Instant, InstantName, Origin
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plan import PlannedLink
from hwd.model.plan_summary import PlanMoves, PlanOrder, PlanStep
from hwd.model.prediction import PlanPrediction
from hwd.model.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline
from hwd.reconfigure.plans.device_times import REMEMBERED, DeviceTimes, _largest, measured
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect, FibreEnd
from hwd_drivers.switching.moves import SwitchMoves

ENOUGH = 120


def seen(name: InstantName, at_s: float) -> Instant:
    at_ns = round(at_s * 1e9)
    return Instant.seen(name, earliest_ns=at_ns, latest_ns=at_ns, best_ns=at_ns, source="test", origin=Origin.MEASURED)


def timeline(
    *, control_s: float = 0.02, ready_s: float | None = None, switch: str = "ocs1", link: str = "h0.eth0<->h1.eth0"
) -> Document:
    sent, answered = seen(InstantName.COMMANDED, 5.0), seen(InstantName.ACKNOWLEDGED, 5.0 + control_s)
    ready = Instant.unknown(InstantName.READY, "none") if ready_s is None else seen(InstantName.READY, 5.0 + ready_s)
    fact = Timeline(
        reconfiguration="r",
        run=None,
        what="",
        commands=[SwitchCommand(switch=switch, commands=1, instants=(sent, answered))],
        ends=[
            EndTimeline(link=Link.parse(link), end=NicPortId.parse(end), instants=(ready,), observations=())
            for end in link.split("<->")
        ],
        links=[
            LinkTimeline(
                link=Link.parse(link),
                kept=False,
                instants=(sent, answered, ready),
                stages=(),
                dwell_s=None,
                switches=[switch],
            )
        ],
        breaches=[],
    )
    return Document(at_ns=0, wall_ns=0, fact=fact)


ADDED = Crossconnect.parse("1A-2B")


def moves(*switches: str) -> list[SwitchMoves]:
    return [SwitchMoves(switch=one, remove=(), add=(ADDED,), keep=(), before=()) for one in switches]


def planned(text: str = "h0.eth0<->h1.eth0", switch: str = "ocs1") -> PlannedLink:
    link = Link.parse(text)
    circuit = Circuit(
        source=FibreEnd(owner="h0", port="eth0"),
        target=FibreEnd(owner="h1", port="eth0"),
        strands=(),
        crossconnects=(SwitchCrossconnect(switch=switch, crossconnect=ADDED),),
        loss_db_typical=0.0,
        loss_db_max=0.0,
        margin_db=0.0,
        overload_db=0.0,
    )
    return PlannedLink(routed=RoutedLink(link=link, circuits=(circuit,)), kept=False)


def predict(times: DeviceTimes, *switches: str, links: Sequence[PlannedLink] = ()) -> PlanPrediction:
    return times.predict(moves(*switches or ("ocs1",)), links, waits=bool(links))


def test_what_is_told_grows_with_the_observations_of_one_device() -> None:
    times = DeviceTimes()
    found = predict(times, links=[planned()])
    assert str(found) == (
        "acknowledged unknown: 0 observations of ocs1, 1 needed; "
        "ready unknown: 0 observations of h0.eth0 over ocs1, 1 needed"
    )
    assert (found.acknowledged.p50_s, found.acknowledged.p99_s) == (None, None)
    for number in range(1, 4):
        times(timeline(control_s=number / 1000))
    acknowledged = predict(times).acknowledged
    assert acknowledged.p50_s == pytest.approx(0.002)
    assert acknowledged.p99_s is None
    assert str(acknowledged) == "p50 0.00200 s, p99 unknown: 3 observations of ocs1, 99 needed"
    for number in range(4, ENOUGH + 1):
        times(timeline(control_s=number / 1000))
    acknowledged = predict(times).acknowledged
    assert acknowledged.p50_s == pytest.approx(0.061)
    assert acknowledged.p99_s == pytest.approx(0.120), "of 121 the next is the largest once"
    assert (acknowledged.observations, acknowledged.of, acknowledged.why) == (ENOUGH, "ocs1", "")


def test_other_devices_and_other_switches_of_a_port_do_not_count() -> None:
    times = DeviceTimes()
    for _ in range(ENOUGH):
        times(timeline(ready_s=9.0, switch="ocs2"))
        times(timeline(ready_s=9.0, link="h2.eth0<->h3.eth0"))
    times(timeline(ready_s=1.0))
    found = predict(times, links=[planned()])
    assert found.ready is not None
    assert found.ready.p50_s == pytest.approx(1.0)
    assert found.ready.observations == 1
    assert predict(times, "ocs2").acknowledged.observations == ENOUGH


def test_the_device_with_the_fewest_observations_decides() -> None:
    times = DeviceTimes()
    for _ in range(ENOUGH):
        times(timeline())
    times(timeline(switch="ocs2", control_s=0.5))
    found = predict(times, "ocs1", "ocs2").acknowledged
    assert found.p50_s == pytest.approx(0.5)
    assert (found.p99_s, found.why) == (None, "1 observation of ocs2, 99 needed")


def test_the_oldest_observations_are_forgotten() -> None:
    times = DeviceTimes()
    for number in range(REMEMBERED + 50):
        times(timeline(control_s=9.0 if number < 50 else 0.02))
    assert predict(times).acknowledged.p99_s == pytest.approx(0.02)
    assert predict(times).acknowledged.observations == REMEMBERED


ascending = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(sorted)


@given(st.lists(ascending, min_size=1, max_size=4))
def test_quantiles_of_the_largest_are_those_of_all_combinations(values: list[list[int]]) -> None:
    largest = sorted(map(max, itertools.product(*values)))
    for quantile in (0.5, 0.99):
        at_least = next(one for count, one in enumerate(largest, 1) if count >= quantile * len(largest) * (1 - 1e-9))
        (found,) = _largest(values, (quantile,), chance=1.0)
        assert found == at_least
    both = [*_largest(values, (0.5, 0.99), chance=1.0)]
    assert both == [next(_largest(values, (one,), chance=1.0)) for one in (0.5, 0.99)]


def test_over_many_histories_the_predictions_cover_what_they_say() -> None:
    draw = random.Random(3)
    switches = ("ocs1", "ocs2", "ocs3")
    below = {0.5: 0, 0.99: 0}
    worlds = 1500
    for _ in range(worlds):
        times = DeviceTimes()
        for _, switch in itertools.product(range(100), switches):
            times.add((switch, ()), draw.expovariate(50))
        next_s = max(draw.expovariate(50) for _ in switches)
        scored = replace(predict(times, *switches).acknowledged, measured_s=next_s)
        for quantile in below:
            below[quantile] += scored.covers(quantile) is True
    assert below[0.5] / worlds == pytest.approx(0.5, abs=0.04)
    assert below[0.99] / worlds == pytest.approx(0.99, abs=0.008)


def test_steps_add_up_and_one_without_links_is_unknown() -> None:
    times = DeviceTimes()
    for number in range(ENOUGH):
        times(timeline(ready_s=1.0 + number / 1000))
    link = planned()
    step = PlanStep(moves=[*map(PlanMoves.of, moves("ocs1"))], made=[link.routed.link], dark=[])
    order = PlanOrder.of([step, step], dark_at_least=0, steps_at_least=2, dark_all_at_once=0)
    found = times.predict(moves("ocs1"), [link], waits=True, steps=order)
    assert found.ready is not None
    assert found.ready.p50_s == pytest.approx(2.15, abs=0.05), "two steps, each the larger of two ends"
    assert found.acknowledged.p50_s == pytest.approx(1.08 + 0.02, abs=0.03), (
        "the second step has only to be acknowledged"
    )
    assert found == times.predict(moves("ocs1"), [link], waits=True, steps=order), "the same each time"
    assert times.predict(moves("ocs1"), [link], waits=False, steps=order).acknowledged.p50_s is None


def test_what_was_measured_is_held_against_it() -> None:
    times = DeviceTimes()
    times(timeline(control_s=0.02, ready_s=1.0))
    prediction = predict(times, links=[planned()])
    fact = timeline(control_s=0.03, ready_s=0.9).fact
    assert isinstance(fact, Timeline)
    found = measured(fact, prediction)
    assert found.ready is not None
    assert found.acknowledged.measured_s == pytest.approx(0.03)
    assert (found.acknowledged.covers(0.5), found.ready.covers(0.5), found.ready.covers(0.99)) == (False, True, None)
    assert found.acknowledged.loss_s(0.5) == pytest.approx(0.005)
    assert found.ready.loss_s(0.5) == pytest.approx(0.05)
    late = timeline(control_s=0.03).fact
    assert isinstance(late, Timeline)
    unready = measured(late, prediction).ready
    assert unready is not None
    assert (unready.measured_s, unready.covers(0.5), unready.loss_s(0.5)) == (None, None, None)


def test_a_timeline_without_the_switches_of_its_links_tells_of_its_switches_alone() -> None:
    """As older versions recorded them."""
    fact = timeline(ready_s=1.0).fact
    assert isinstance(fact, Timeline)
    older = replace(fact, links=[replace(link, switches=UNSET) for link in fact.links])
    times = DeviceTimes()
    times(Document(at_ns=0, wall_ns=0, fact=older))
    found = predict(times, links=[planned()])
    assert found.ready is not None
    assert (found.acknowledged.observations, found.ready.observations) == (1, 0)


async def test_prediction_is_from_the_timelines_that_the_retention_left() -> None:
    records = Records("sqlite://", InlineOffload())
    await records.open()
    made = [replace_time(timeline(control_s=0.01 * n), n) for n in range(1, ENOUGH + 1)]
    await records.add_documents(made)
    cutoffs = {DocumentGroup.DOCUMENTS: Cutoff(before_wall_ns=21, why="too old")}
    await records.old_documents.delete(Batch(), cutoffs, frozenset())
    times = DeviceTimes()
    await times.load(records)
    records.close()
    found = times.predict(moves("ocs1"), [], waits=False).acknowledged
    assert found.observations == ENOUGH - 20
    assert found.p50_s == pytest.approx(0.01 * (20 + (ENOUGH - 20) / 2), rel=0.02)


def replace_time(one: Document, wall_ns: int) -> Document:
    return Document(at_ns=one.at_ns, wall_ns=wall_ns, fact=one.fact)
