"""Light sampled from simulated modules: bounds contain the true time, and losses between samples are found."""

import asyncio
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd_agents.process.config import ModuleTiming, PortConfig, SamplingConfig
from hwd_agents.watchers.burst import Burst
from hwd_agents.watchers.optics_watcher import OpticsWatcher
from hwd_agents.watchers.per_port import PerPort
from hwd_agents.wire.events import MonitorData
from hwd_drivers.twins.virtual_time import run_virtual

from ..conftest import LATENCY_NS, MS, Ear, Stage, stage

ROUND_TRIP_NS = 2 * LATENCY_NS
PROMPT = ModuleTiming(los_s=0.0, monitor_s=0.0)
SAMPLING = SamplingConfig(light_fast_s=0.01, light_slow_s=1.0, light_settled_s=1.0)


class Watched:
    """An optics watcher on `h0`."""

    def __init__(
        self, one: Stage, *, ports: int = 1, sampling: SamplingConfig = SAMPLING, timing: ModuleTiming | None = PROMPT
    ) -> None:
        modules = one.sources["h0"].modules
        assert modules is not None
        self.stage = one
        self.host = one.hosts["h0"]
        self.ear = Ear()
        self.changes = 0
        phase = random.Random(1)
        watchers = {
            name: OpticsWatcher(
                name,
                PortConfig(interface=name),
                modules,
                one.clock,
                self.ear,
                sampling=sampling,
                phase=phase,
                on_change=self._change,
                timings={"QSFP28-LR4": timing} if timing is not None else {},
            )
            for name in (f"eth{number}" for number in range(ports))
        }
        self.optics = PerPort("optics", watchers)
        self.task = one.run(self.optics)

    def _change(self) -> None:
        self.changes += 1


@pytest.fixture
async def seen(one: Stage) -> Watched:
    """Lit, and observed."""
    one.hosts["h0"].light("eth0", lit=True)
    seen = Watched(one)
    await asyncio.sleep(2.5)
    await seen.optics["eth0"].begin()
    return seen


async def test_dark_and_light_are_told_within_a_sample_of_the_truth(seen: Watched) -> None:
    await asyncio.sleep(0.2034)
    dark_ns = seen.stage.now_ns()
    seen.host.light("eth0", lit=False)
    await asyncio.sleep(0.0817)
    light_ns = seen.stage.now_ns()
    seen.host.light("eth0", lit=True)
    await asyncio.sleep(0.5)
    dark, light = seen.ear.told
    assert (dark.kind, light.kind) == ("dark", "light")
    assert dark.earliest_ns <= dark_ns <= dark.at_ns <= dark.earliest_ns + 10 * MS + ROUND_TRIP_NS
    assert light.earliest_ns <= light_ns <= light.at_ns <= light.earliest_ns + 20 * MS + ROUND_TRIP_NS
    assert dark.sampling_ns == dark.at_ns - dark.earliest_ns
    assert dark.data == {"lanes": [None] * 4}
    assert light.data == {"lanes": [-2.0] * 4}
    assert (dark.source, dark.origin) == ("module", "twin")


@settings(max_examples=60)
@given(st.booleans(), st.floats(0, 0.03), st.lists(st.floats(0.0005, 0.06), max_size=8))
def test_bounds_hold_the_truth_at_any_phase_of_sampling(lit: bool, phase_s: float, lengths_s: list[float]) -> None:
    async def main() -> None:
        async with stage("h0") as one:
            await play(one, lit, phase_s, lengths_s)

    run_virtual(main())


async def play(one: Stage, now: bool, phase_s: float, lengths_s: list[float]) -> None:
    """Light that comes and goes; what is told holds it."""
    host = one.hosts["h0"]
    host.light("eth0", lit=now)
    seen = Watched(one)
    await asyncio.sleep(2.5)  # a flag of before is read and cleared
    await seen.optics["eth0"].begin()
    await asyncio.sleep(phase_s)
    truth: dict[str, list[int]] = {"dark": [], "light": []}
    must: list[int] = []  # falls of light that had been there for more than two samples: never missed
    lit_s = 2.5 + phase_s
    for length_s in lengths_s:
        await asyncio.sleep(length_s)
        if now and lit_s + length_s > 0.0206:
            must.append(one.now_ns())
        lit_s = 0.0
        now = not now
        host.light("eth0", lit=now)
        truth["light" if now else "dark"].append(one.now_ns())
    await asyncio.sleep(0.1)
    kinds = seen.ear.kinds()
    assert all(a != b for a, b in itertools.pairwise(kinds))
    for told in seen.ear.told:
        inside = [at_ns for at_ns in truth[told.kind] if told.earliest_ns <= at_ns <= told.at_ns]
        assert inside, told
    darks = seen.ear.of("dark")
    for fell_ns in must:
        assert any(told.earliest_ns <= fell_ns <= told.at_ns for told in darks)
    kept = seen.optics["eth0"].observation()
    assert (kept.now, kept.lost, seen.optics["eth0"].lit) == (now, len(darks), now)


async def test_what_happened_before_it_was_observed_is_no_loss_of_it(one: Stage) -> None:
    host = one.hosts["h0"]
    host.light("eth0", lit=True)
    seen = Watched(one)
    await asyncio.sleep(2.5)
    host.light("eth0", lit=False)
    host.light("eth0", lit=True)
    await seen.optics["eth0"].begin()  # its first sample finds the flag set
    await asyncio.sleep(1)
    seen.optics["eth0"].end()
    ended_ns = one.now_ns()
    await asyncio.sleep(1)
    kept = seen.optics["eth0"].observation()
    assert (kept.now, kept.lost, kept.upto_ns) == (True, 0, ended_ns)


async def test_a_module_that_is_missing_is_said_and_others_are_read(one: Stage) -> None:
    one.hosts["h0"].light("eth0", lit=True)
    seen = Watched(one, ports=2)  # there is no eth1
    await asyncio.sleep(2)
    await seen.optics["eth0"].begin()
    await seen.optics["eth1"].begin()
    await asyncio.sleep(0.5)
    missing = seen.optics["eth1"].observation()
    assert (missing.seen, missing.now, missing.looks) == (False, None, 0)
    assert missing.why_not == seen.optics["eth1"].why_not == "h0: there is no module in eth1"
    assert missing.failed >= 50
    assert (seen.optics["eth1"].lit, seen.optics["eth1"].module) == (None, None)
    assert seen.optics["eth0"].observation().looks >= 50
    assert seen.changes == 2
    one.hosts["h0"].plug("eth1")
    await asyncio.sleep(0.5)
    assert seen.changes == 3
    there = seen.optics["eth1"].observation()
    assert (there.seen, there.now, seen.optics["eth1"].why_not) == (True, False, "")
    module = seen.optics["eth1"].module
    assert module is not None
    assert module.serial == "h0-eth1"


async def test_light_that_changed_while_the_rack_was_away_is_bounded_by_the_looks_around_it(seen: Watched) -> None:
    await asyncio.sleep(0.1)
    await seen.stage.rack_down("h0")
    await asyncio.sleep(1)
    assert seen.optics["eth0"].lit is None
    dark_ns = seen.stage.now_ns()
    seen.host.light("eth0", lit=False)
    await asyncio.sleep(1)
    await seen.stage.rack_up("h0")
    await asyncio.sleep(2)
    (dark,) = seen.ear.told
    assert dark.earliest_ns <= dark_ns <= dark.at_ns
    assert dark.at_ns - dark.earliest_ns > 1900 * MS
    seen_of_it = seen.optics["eth0"].observation()
    assert seen_of_it.longest_gap_ns >= 1900 * MS
    assert seen_of_it.failed > 100


async def test_modules_are_read_fast_only_while_their_port_is_observed_and_its_light_did_not_come_back_and_stay(
    one: Stage,
) -> None:
    host = one.hosts["h0"]

    async def looks() -> int:
        before = host.modules_read
        await asyncio.sleep(10)
        return host.modules_read - before

    host.light("eth0", lit=True)
    seen = Watched(one)
    await asyncio.sleep(2.5)
    assert abs(await looks() - 10) <= 1
    await seen.optics["eth0"].begin()
    assert abs(await looks() - 1000) <= 1
    host.light("eth0", lit=False)
    await asyncio.sleep(0.1)
    host.light("eth0", lit=True)
    await asyncio.sleep(1.5)
    assert await looks() <= 11
    lost = seen.optics["eth0"].observation().lost
    host.light("eth0", lit=False)  # it is still observed: what it latched is found by the next look
    host.light("eth0", lit=True)
    await asyncio.sleep(3)
    assert (lost, seen.optics["eth0"].observation().lost) == (1, 2)


async def test_samples_of_a_burst_lie_anywhere_after_its_begin(one: Stage) -> None:
    """Light that comes at the same time after each begin is sampled at times that fill the whole sampling period."""
    host = one.hosts["h0"]
    seen = Watched(one)
    late_ns = []
    for _ in range(40):
        await seen.optics["eth0"].begin()
        await asyncio.sleep(0.05)
        came_ns = one.now_ns()
        host.light("eth0", lit=True)
        await asyncio.sleep(0.1)
        late_ns.append(seen.ear.of("light")[-1].at_ns - came_ns)
        host.light("eth0", lit=False)
        seen.optics["eth0"].end()
        await asyncio.sleep(1.5)
    assert len(set(late_ns)) == len(late_ns)
    assert all(0 < late <= 10 * MS + ROUND_TRIP_NS for late in late_ns)
    thirds = [sum(low * MS < late <= high * MS for late in late_ns) for low, high in ((0, 3.4), (3.4, 6.7), (6.7, 11))]
    assert min(thirds) >= 6, thirds


async def test_light_may_have_come_earlier_by_a_declared_delay_and_has_no_earliest_where_nobody_declared_it(
    one: Stage,
) -> None:
    one.hosts["h0"].light("eth0", lit=True)
    declared, unknown = Watched(one, timing=ModuleTiming(los_s=0.1)), Watched(one, timing=None)
    await asyncio.sleep(2.5)
    for seen in (declared, unknown):
        await seen.optics["eth0"].begin()
    await asyncio.sleep(0.5)
    one.hosts["h0"].light("eth0", lit=False)
    await asyncio.sleep(0.1)
    (dark,) = declared.ear.told
    assert dark.sampling_ns <= 10 * MS + ROUND_TRIP_NS
    assert dark.at_ns - dark.earliest_ns == dark.sampling_ns + 100 * MS
    assert declared.optics["eth0"].limits() == ""
    (dark,) = unknown.ear.told
    assert (dark.earliest_ns, dark.data["one_sided"]) == (0, True)
    assert unknown.optics["eth0"].limits() == (
        "how early light went or came is unknown: declare modules.QSFP28-LR4.los_s in the agent's file"
    )


async def test_a_module_that_is_slower_than_asked_for_is_said_to_be_with_the_time_that_was_measured(one: Stage) -> None:
    one.hosts["h0"].light("eth0", lit=True)
    asked = SamplingConfig(light_fast_s=LATENCY_NS / 1e9)  # and each read takes two of them
    seen = Watched(one, sampling=asked)
    assert seen.optics["eth0"].monitors() is None
    await asyncio.sleep(2.5)
    assert seen.optics["eth0"].limits() == ""
    assert seen.optics["eth0"].monitors() == MonitorData(
        rx_power_dbm=[-2.0] * 4,
        tx_power_dbm=[0.0] * 4,
        bias_ma=[0.0] * 4,
        temperature_c=35.0,
        sampled_every_s=None,
        read_s=None,
    )
    await seen.optics["eth0"].begin()
    await asyncio.sleep(0.5)
    assert seen.optics["eth0"].limits() == "", "of what goes on nothing is judged"
    seen.optics["eth0"].end()
    assert seen.optics["eth0"].limits() == (
        "it was read every 0.2 ms when it was last observed, but every 0.1 ms was asked for: a read takes 0.2 ms"
    )
    monitors = seen.optics["eth0"].monitors()
    assert monitors is not None
    assert (monitors.sampled_every_s, monitors.read_s) == (0.0002, 0.0002)
    await seen.optics["eth0"].begin()
    for lit in (False, True):
        await asyncio.sleep(0.05)
        one.hosts["h0"].light("eth0", lit=lit)
    await asyncio.sleep(0.05)
    dark, _ = seen.ear.told
    assert dark.sampling_ns == 2 * ROUND_TRIP_NS, "the event says what was, and not what was asked for"


async def test_a_burst_is_two_hundred_looks_a_second_where_nobody_says_otherwise(one: Stage) -> None:
    ports = ["eth0", "eth1", "eth2", "eth3"]
    for port in ports[1:]:
        one.hosts["h0"].plug(port)
    seen = Watched(one, ports=4, sampling=SamplingConfig())
    await asyncio.sleep(2.5)
    for port in ports:
        await seen.optics[port].begin()
    await asyncio.sleep(2)
    for port in ports:
        assert 399 <= seen.optics[port].observation().looks <= 403
        monitors = seen.optics[port].monitors()
        assert monitors is not None
        assert isinstance(monitors.sampled_every_s, float)
        assert monitors.sampled_every_s <= 0.005


# --- what came of a burst of reads


def test_distance_and_length_of_reads_are_means_of_what_was() -> None:
    burst = Burst()
    for at_ms, read_ms in ((10, 2), (15, 2), (27, 8), (30, 0)):
        burst.look((at_ms - read_ms) * MS, at_ms * MS)
    assert (burst.every_s, burst.read_s) == (0.006667, 0.003)


def test_of_less_than_two_reads_nothing_is_known() -> None:
    burst = Burst()
    assert (burst.every_s, burst.read_s) == (None, None)
    burst.look(0, 2 * MS)
    assert (burst.every_s, burst.read_s) == (None, None)
