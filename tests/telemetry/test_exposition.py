"""The exposition: read back by prometheus_client and promtool, one moment in time, in slices."""

import asyncio
import itertools
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector

from hwd.telemetry import Metrics
from hwd.telemetry.buckets import BOUNDS_S, SERIES, Buckets
from hwd.telemetry.exposition import OPENMETRICS, TEXT, Exposition, wants_openmetrics
from hwd.telemetry.label import VALUE_MAX
from hwd.telemetry.series import Series

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 asks for."""
ANY_TEXT = st.text(st.characters(), max_size=VALUE_MAX + 20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


class Read(Collector):
    """Families as a parser read them, for prometheus_client to render again."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def parse_openmetrics(text: str) -> list[Metric]:
    return list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def made(values: list[tuple[str, float]]) -> tuple[Series, Series, Buckets]:
    gauge = Series("hwd_some_gauge", "A gauge", "host", "device", limit=100)
    counter = Series("hwd_some_total", "A counter", "host", limit=100, counter=True)
    buckets = Buckets("hwd_some_seconds", "A histogram", "switch", limit=100 * SERIES)
    for text, value in values:
        gauge.set(value, text, "eth0")
        counter.set(abs(value), text)
        buckets.observe(abs(value) % 100, text, by={"run": text}, wall_s=1_700_000_000.25)
    return gauge, counter, buckets


VALUES = st.lists(st.tuples(ANY_TEXT, NUMBERS), min_size=1, max_size=5)


@given(VALUES)
def test_text_is_what_prometheus_client_makes_of_what_it_read(values: list[tuple[str, float]]) -> None:
    ours = bytes(Exposition(made(values), openmetrics=False)).decode()
    read = list(parse_text(ours))
    assert list(parse_text(generate_latest(Read(read)).decode())) == read
    assert [family.type for family in read] == ["gauge", "counter", "histogram"]


@given(VALUES)
def test_openmetrics_is_what_prometheus_client_makes_of_what_it_read(values: list[tuple[str, float]]) -> None:
    ours = bytes(Exposition(made(values), openmetrics=True)).decode()
    read = parse_openmetrics(ours)
    again = generate_openmetrics(Read(read))  # type: ignore[no-untyped-call]
    assert parse_openmetrics(again.decode()) == read
    told = [
        sample.exemplar.labels["run"] for family in read for sample in family.samples if sample.exemplar is not None
    ]
    assert set(told) <= {text for text, _ in values if re.fullmatch(r"[\w.-]+", text, re.ASCII)}


@given(VALUES)
def test_values_are_those_that_prometheus_client_would_tell(values: list[tuple[str, float]]) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    gauge = Gauge("hwd_some_gauge", "A gauge", ["host", "device"], registry=registry)
    counter = Counter("hwd_some_total", "A counter", ["host"], registry=registry)
    histogram = Histogram("hwd_some_seconds", "A histogram", ["switch"], registry=registry, buckets=BOUNDS_S)
    ours = made([])
    for text, value in values:
        ours[0].set(value, text, "eth0")
        ours[1].add(abs(value), text)
        ours[2].observe(abs(value) % 100, text)
        cleaned = text[:VALUE_MAX].encode("utf-8", "replace").decode()
        gauge.labels(cleaned, "eth0").set(value)
        counter.labels(cleaned).inc(abs(value))
        histogram.labels(cleaned).observe(abs(value) % 100)
    told = parse_text(bytes(Exposition(ours, openmetrics=False)).decode())
    assert list(told) == list(parse_text(generate_latest(registry).decode()))


def test_rack_at_work_is_rendered_to_the_byte_as_prometheus_client_does(metrics: Metrics, rack: None) -> None:
    ours = bytes(metrics.render())
    assert generate_latest(Read(parse_text(ours.decode()))) == ours


def test_promtool_has_nothing_to_say(metrics: Metrics, rack: None) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: apt-get install prometheus")
    said = subprocess.run(
        [promtool, "check", "metrics"], input=bytes(metrics.render()), capture_output=True, check=False
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


def test_promtool_bears_every_odd_character(metrics: Metrics, tell: Callable[..., None]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: apt-get install prometheus")
    odd = "".join(map(chr, (*range(0x20), *map(ord, '"\\{}=,#'), 0x7F, 0x85, 0x2028, 0xD800, 0xFEFF, 0xFFFE, 0x1F600)))
    tell("switch.down", switch=odd, cause="")
    tell("host.birth", host=odd, boot="b", version="", ports={odd: {"interface": odd, "carrier": True}})
    text = bytes(metrics.render())
    assert b'hwd_nic_carrier{device="' in text
    said = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


def test_exemplar_leads_from_a_bucket_to_its_reconfiguration(metrics: Metrics, rack: None) -> None:
    exposition = metrics.render(PROMETHEUS_2)
    assert exposition.content_type == OPENMETRICS
    samples = [sample for family in parse_openmetrics(bytes(exposition).decode()) for sample in family.samples]
    (firmware,) = [sample for sample in samples if sample.exemplar and sample.labels.get("stage") == "firmware"]
    assert firmware.labels["le"] == "6.0"
    assert firmware.exemplar is not None
    assert (firmware.exemplar.labels, firmware.exemplar.value) == ({"reconfiguration": "r1"}, 6.0)


def test_text_format_has_no_exemplars(metrics: Metrics, rack: None) -> None:
    exposition = metrics.render("text/plain")
    assert exposition.content_type == TEXT
    text = bytes(exposition).decode()
    assert " # " not in "".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "# EOF" not in text


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (PROMETHEUS_2, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0;charset=utf-8;q=0.6,text/plain;version=0.0.4;q=0.5", True),
        ("application/openmetrics-text;q=0.4,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=much", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("text/plain", False),
        ("*/*", False),
        ("", False),
        (";;=,;q", False),
    ],
)
def test_openmetrics_is_sent_to_who_asks_for_it(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted


@given(st.text())
def test_no_accept_header_breaks_it(accept: str) -> None:
    wants_openmetrics(accept)


async def test_values_are_of_one_moment_although_others_have_their_turn() -> None:
    series = Series("hwd_some_gauge", "A gauge", "host", limit=50_000)
    buckets = Buckets("hwd_some_seconds", "A histogram", "switch", limit=500 * SERIES)

    def step(number: int) -> None:
        for index in range(20_000):
            series.set(number, f"h{index}")
        for index in range(100):
            buckets.observe(float(number), f"s{index}")

    step(1)
    exposition = Exposition([series, buckets], openmetrics=False)
    step(2)
    turns, parts = 0, list[bytes]()
    async for chunk in exposition:
        parts.append(chunk)
        asyncio.get_running_loop().call_soon(step, 3 + turns)
        turns += 1
    gauges, histograms = parse_text(b"".join(parts).decode())
    assert turns > 5
    assert {sample.value for sample in gauges.samples} == {1.0}
    assert {sample.value for sample in histograms.samples if sample.name.endswith("_count")} == {1.0}
    assert {sample.value for sample in histograms.samples if sample.name.endswith("_sum")} == {1.0}


async def test_a_hundred_thousand_series_keep_the_loop_for_less_than_20_ms_at_a_time() -> None:
    """By the CPU time of this thread: what other processes take is none of it. `python -m bench --only render` measures the whole way."""
    series = Series("hwd_port_power_dbm", "Power", "switch", "port", limit=100_000)
    for switch, port in itertools.product(range(100), range(1000)):
        series.set(-1.0, f"ocs{switch}", f"{port}A")
    begun_s = time.thread_time()
    exposition = Exposition([series], openmetrics=True)
    turns_s, chunks = [time.thread_time() - begun_s], 0
    begun_s = time.thread_time()
    async for _ in exposition:
        turns_s.append(time.thread_time() - begun_s)
        chunks += 1
        begun_s = time.thread_time()
    assert chunks > 20
    assert max(turns_s) < 0.020
