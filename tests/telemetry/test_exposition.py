"""The exposition: it obeys the rules of both formats, promtool accepts it, it is of one moment and comes in parts."""

import asyncio
import itertools
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.registry import Collector

from hwd.model.host import HostBirth
from hwd.telemetry import Budget, Metrics
from hwd.telemetry.buckets import BOUNDS_S, SERIES, Buckets
from hwd.telemetry.exposition import OPENMETRICS, TEXT, Exposition, wants_openmetrics
from hwd.telemetry.series import PART_SERIES, VALUE_MAX, Series
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchDown, SwitchPower

from ..texts import by_end
from .conftest import RackMetrics, Tell, port_state

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 asks for."""
ANY_TEXT = st.text(st.characters(), max_size=VALUE_MAX + 20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)

Labels = tuple[tuple[str, str], ...]
Values = dict[tuple[str, Labels], float]


def at_once(collector: Collector, *, openmetrics: bool) -> bytes:
    """As prometheus_client renders it in one go."""
    return generate_openmetrics(collector) if openmetrics else generate_latest(collector)  # type: ignore[no-untyped-call]


class Collected(Collector):
    """Several collectors as one, each asked at once."""

    def __init__(self, *collectors: Series | Buckets) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        return chain.from_iterable([collector.collect() for collector in self._collectors])


class Whole(Collector):
    """Families of another collector, each in one part."""

    def __init__(self, parts: Collector) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        for _, parts in itertools.groupby(self._parts.collect(), lambda part: part.name):
            whole, *others = parts
            whole.samples.extend(sample for part in others for sample in part.samples)
            yield whole


def observed(values: list[tuple[str, float]]) -> tuple[Collected, Values, set[str]]:
    """Collectors with these values, what an exposition has to say of them, and labels that exemplars may have."""
    gauge = Series("hwd_some_gauge", "A gauge", "host", "device", limit=100)
    counter = Series("hwd_some_total", "A counter", "host", limit=100)
    buckets = Buckets("hwd_some_seconds", "A histogram", "switch", limit=100 * SERIES)
    expected: Values = {}
    for text, value in values:
        gauge.set(value, text, "eth0")
        counter.add(abs(value), text)
        buckets.observe(seconds := abs(value) % 100, text, by={"run": text}, wall_s=1_700_000_000.25)
        cleaned = text[:VALUE_MAX].encode("utf-8", "replace").decode()
        expected["hwd_some_gauge", (("device", "eth0"), ("host", cleaned))] = value
        added = [("hwd_some_total", "host", cleaned, abs(value)), ("hwd_some_seconds_sum", "switch", cleaned, seconds)]
        added.append(("hwd_some_seconds_count", "switch", cleaned, 1))
        for name, label, labelled, by in added:
            key = (name, ((label, labelled),))
            expected[key] = expected.get(key, 0.0) + by
        for bound in (*BOUNDS_S, float("inf")):
            le = "+Inf" if bound == float("inf") else repr(bound)
            bucket = ("hwd_some_seconds_bucket", (("le", le), ("switch", cleaned)))
            expected[bucket] = expected.get(bucket, 0.0) + (seconds <= bound)
    plain = {text for text, _ in values if re.fullmatch(r"[\w.-]{1,40}", text, re.ASCII)}
    return Collected(gauge, counter, buckets), expected, plain


VALUES = st.lists(st.tuples(ANY_TEXT, NUMBERS), min_size=1, max_size=5)


@settings(max_examples=50)
@given(VALUES)
def test_both_formats_say_what_was_observed_and_openmetrics_by_which_run(values: list[tuple[str, float]]) -> None:
    collected, expected, plain = observed(values)
    families = [*collected.collect()]
    assert [(family.name, family.type) for family in families] == [
        ("hwd_some_gauge", "gauge"),
        ("hwd_some", "counter"),
        ("hwd_some_seconds", "histogram"),
    ]
    samples = [sample for family in families for sample in family.samples]
    assert {(one.name, tuple(sorted(one.labels.items()))): one.value for one in samples} == expected
    assert len(samples) == len(expected)
    exemplars = [one.exemplar for one in samples if one.exemplar]
    assert {tuple(one.labels.items()) for one in exemplars} <= {(("run", text),) for text in plain}
    assert bool(exemplars) is bool(plain)
    assert {one.timestamp for one in exemplars} <= {1_700_000_000.25}
    for openmetrics in (False, True):
        exposition = Exposition(collected, openmetrics=openmetrics)
        assert bytes(exposition) == at_once(collected, openmetrics=openmetrics)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_rack_at_work_is_rendered_to_the_byte_as_in_one_go(metrics: Metrics, rack: None, openmetrics: bool) -> None:
    """The parts hide nothing and repeat nothing, and a strict reader takes them."""
    text = bytes(Exposition(metrics, openmetrics=openmetrics))
    assert text == at_once(metrics, openmetrics=openmetrics)
    assert len([*(read_openmetrics if openmetrics else read_text)(text.decode())]) > 50


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("series", [PART_SERIES - 1, PART_SERIES, PART_SERIES + 1, 3 * PART_SERIES])
def test_large_family_in_parts_has_one_header_and_all_its_series(series: int, openmetrics: bool) -> None:
    gauge = Series("hwd_some_gauge", "A gauge", "host", limit=series)
    counter = Series("hwd_some_total", "A counter", "host", limit=series)
    buckets = Buckets("hwd_some_seconds", "A histogram", "host", limit=series)
    for number in range(series):
        gauge.set(number, f"h{number}")
        counter.set(number, f"h{number}")
        buckets.observe(number, f"h{number}", by={"run": f"r{number}"})
    collected = Collected(gauge, counter, buckets)
    assert sum(len(family.samples) for family in collected.collect()) == 2 * series + len(buckets)
    text = bytes(Exposition(collected, openmetrics=openmetrics))
    assert text == at_once(Whole(collected), openmetrics=openmetrics)


def test_no_name_of_a_family_clashes_with_another(metrics: Metrics) -> None:
    """A counter `hwd_runs_total` reserves the name `hwd_runs` too: OpenMetrics calls its family so."""
    registry = CollectorRegistry()
    for metric in metrics:
        registry.register(metric)


def test_promtool_has_nothing_to_say_to_a_rack_odd_characters_or_a_family_in_parts(
    metrics: Metrics, rack: None, tell: Tell
) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: apt-get install prometheus")
    odd = "".join(map(chr, (*range(0x20), *map(ord, '"\\{}=,#'), 0x7F, 0x85, 0x2028, 0xD800, 0xFEFF, 0xFFFE, 0x1F600)))
    tell(SwitchDown(switch=odd, cause=""))
    tell(HostBirth(host=odd, boot="b", version="", ports={odd: port_state(interface=odd)}))
    large = Series("hwd_large", "A family in parts", "port", limit=3 * PART_SERIES)
    for port in range(3 * PART_SERIES):
        large.set(-1.0, f"{port}A")
    text = bytes(metrics.render()) + bytes(Exposition(large, openmetrics=False))
    assert b'hwd_nic_carrier{device="' in text
    said = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


def test_exemplar_leads_from_a_bucket_to_its_reconfiguration_and_the_text_format_has_none(
    metrics: Metrics, rack: None
) -> None:
    exposition = metrics.render(PROMETHEUS_2)
    assert exposition.content_type == OPENMETRICS
    exemplars = {
        one.labels["le"]: (one.exemplar.labels, one.exemplar.value, float(one.exemplar.timestamp or -1))
        for family in read_openmetrics(bytes(exposition).decode())  # type: ignore[no-untyped-call]
        for one in family.samples
        if one.exemplar and one.labels.get("stage") == "firmware"
    }
    assert exemplars == {"6.0": ({"reconfiguration": "r1"}, 6.0, 0.0)}
    plain = metrics.render("text/plain")
    assert plain.content_type == TEXT
    text = bytes(plain).decode()
    assert " # " not in "".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "# EOF" not in text


ACCEPTED = {
    PROMETHEUS_2: True,
    "application/openmetrics-text": True,
    "application/openmetrics-text;version=1.0.0;charset=utf-8;q=0.6,text/plain;version=0.0.4;q=0.5": True,
    "application/openmetrics-text;q=0.4,text/plain;q=0.5": False,
    "application/openmetrics-text;q=0": False,
    "application/openmetrics-text;q=much": False,
    "application/openmetrics-text;version=2.0.0": False,
    "text/plain": False,
    "*/*": False,
    "": False,
    ";;=,;q": False,
    "\0,=;q=\ud800": False,
}


def test_openmetrics_is_sent_to_who_asks_for_it() -> None:
    assert {accept: wants_openmetrics(accept) for accept in ACCEPTED} == ACCEPTED


async def test_values_are_of_one_moment_although_others_have_their_turn() -> None:
    series = Series("hwd_some_gauge", "A gauge", "host", limit=50_000)
    buckets = Buckets("hwd_some_seconds", "A histogram", "switch", limit=500 * SERIES)

    def step(number: int) -> None:
        for index in range(8_000):
            series.set(number, f"h{index}")
        for index in range(100):
            buckets.observe(float(number), f"s{index}")

    step(1)
    exposition = Exposition(Collected(series, buckets), openmetrics=False)
    step(2)
    turns, parts = 0, list[bytes]()
    async for part in exposition:
        parts.append(part)
        asyncio.get_running_loop().call_soon(step, 3 + turns)
        turns += 1
    lines = b"".join(parts).decode().splitlines()
    assert turns > 5
    for name in ("hwd_some_gauge{", "hwd_some_seconds_count{", "hwd_some_seconds_sum{"):
        assert {line.rpartition(" ")[2] for line in lines if line.startswith(name)} == {"1.0"}


async def test_many_clients_at_once_render_one_part_in_a_turn_of_the_loop() -> None:
    metrics = RackMetrics(Budget(switches=1, ends=5 * PART_SERIES, hosts=1, ports=1, lanes=1))
    powers: dict[str, float | None] = {f"{port}A": -1.0 for port in range(5 * PART_SERIES)}
    metrics(Document(at_ns=0, wall_ns=0, fact=SwitchPower(switch="ocs1", power_dbm=by_end(powers))))
    in_turns = [0]

    async def scrape() -> bytes:
        text = b""
        async for part in metrics.render():
            text += part
            in_turns[-1] += 1
        return text

    async def tick() -> None:
        while True:
            await asyncio.sleep(0)
            in_turns.append(0)

    ticking = asyncio.create_task(tick())
    answers = await asyncio.gather(*(scrape() for _ in range(20)))
    ticking.cancel()
    assert set(answers) == {bytes(metrics.render())}
    assert sum(in_turns) >= 20 * 5
    assert max(in_turns) == 1


async def test_a_hundred_thousand_series_keep_the_loop_for_less_than_20_ms_at_a_time() -> None:
    """By the CPU time of this thread: other processes are not in it. `python -m bench --only render` measures the
    whole way."""
    metrics = RackMetrics(Budget(switches=100, ends=100_000, hosts=1, ports=1, lanes=1))
    for number in range(100):
        powers: dict[str, float | None] = {f"{port}A": -1.0 for port in range(1000)}
        metrics(Document(at_ns=0, wall_ns=0, fact=SwitchPower(switch=f"ocs{number}", power_dbm=by_end(powers))))
    begun_s = time.thread_time()
    exposition = metrics.render(OPENMETRICS)
    turns_s, parts = [time.thread_time() - begun_s], 0
    begun_s = time.thread_time()
    async for _ in exposition:
        turns_s.append(time.thread_time() - begun_s)
        parts += 1
        begun_s = time.thread_time()
    assert parts > 100
    assert max(turns_s) < 0.020
