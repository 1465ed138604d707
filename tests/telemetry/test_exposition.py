"""The exposition: it obeys the rules of both formats, promtool accepts it, it is of one moment and comes in parts."""

import asyncio
import itertools
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from hwd.model.documents.hosts import HostBirth
from hwd.telemetry import Budget, Metrics
from hwd.telemetry.buckets import BOUNDS_S, SERIES, Buckets
from hwd.telemetry.exposition import OPENMETRICS, TEXT, Exposition, wants_openmetrics
from hwd.telemetry.label import VALUE_MAX
from hwd.telemetry.series import PART_SERIES, Series
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchDown, SwitchPower

from .conftest import Tell, port_state

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 asks for."""
ANY_TEXT = st.text(st.characters(), max_size=VALUE_MAX + 20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)

NAME, VALUE = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)"
TEXT_OF_LABEL = r'(?:[^\\"\n]|\\[\\n"])*'
LABELS = rf'\{{(?:{NAME}="{TEXT_OF_LABEL}",?)*\}}'
HELP, TYPE = re.compile(rf"# HELP ({NAME}) (.*)"), re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram)")
SAMPLE = re.compile(
    rf"(?P<name>{NAME})(?P<labels>{LABELS})? (?P<value>{VALUE})"
    rf"(?: # (?P<by>{LABELS}) (?P<observed>{VALUE}) (?P<at_s>{VALUE}))?"
)

Labels = tuple[tuple[str, str], ...]
Values = dict[tuple[str, Labels], float]


@dataclass
class Family:
    """A family as the rules read it. Labels are in the order of the alphabet."""

    name: str
    type: str
    values: Values = field(default_factory=dict)
    exemplars: dict[tuple[str, Labels], tuple[Labels, float, float]] = field(default_factory=dict)


def read(text: str, *, openmetrics: bool = False) -> list[Family]:
    """By the rules of text format 0.0.4 or OpenMetrics 1.0, without prometheus_client; fails at a breach."""
    lines = text.split("\n")
    assert lines.pop() == "", "the last line has no end"
    if openmetrics:
        assert lines.pop() == "# EOF"
    families = list[Family]()
    for line in lines:
        if about := HELP.fullmatch(line):
            assert about[1] not in {family.name for family in families}, f"{about[1]} twice"
            families.append(Family(about[1], ""))
        elif about := TYPE.fullmatch(line):
            assert (about[1], families[-1].type, families[-1].values) == (families[-1].name, "", {})
            families[-1].type = about[2]
        else:
            read_sample(line, families[-1], openmetrics=openmetrics)
    for family in families:
        assert family.values, f"{family.name} has no series"
        if family.type == "histogram":
            check_histograms(family)
    return families


def read_sample(line: str, family: Family, *, openmetrics: bool) -> None:
    sample = SAMPLE.fullmatch(line)
    assert sample, line
    suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",) if openmetrics else ("",)}
    name = sample["name"]
    assert name in {family.name + suffix for suffix in suffixes.get(family.type, ("",))}, line
    key = (name, labels_of(sample["labels"]))
    assert key not in family.values, f"{key} twice"
    family.values[key] = float(sample["value"])
    if sample["by"] is not None:
        assert openmetrics, line
        assert name.endswith("_bucket"), line
        family.exemplars[key] = labels_of(sample["by"]), float(sample["observed"]), float(sample["at_s"])


def labels_of(text: str | None) -> Labels:
    escapes = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
    found = re.findall(rf'({NAME})="({TEXT_OF_LABEL})"', text or "")
    pairs = [(name, re.sub(r"\\.", lambda at: escapes[at[0]], value)) for name, value in found]
    assert len({name for name, _ in pairs}) == len(pairs)
    return tuple(sorted(pairs))


def check_histograms(family: Family) -> None:
    """Buckets ascend, the last is that of all, and count and sum are there."""
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    for (name, labels), value in family.values.items():
        if name == f"{family.name}_bucket":
            (bound,) = [value for label, value in labels if label == "le"]
            others = tuple(pair for pair in labels if pair[0] != "le")
            buckets.setdefault(others, []).append((float(bound), value))
    ends = {(family.name + end, labels) for end in ("_sum", "_count") for labels in buckets}
    assert ends == {key for key in family.values if not key[0].endswith("_bucket")}
    for labels, pairs in buckets.items():
        assert pairs == sorted(pairs)
        assert [count for _, count in pairs] == sorted(count for _, count in pairs)
        assert pairs[-1] == (float("inf"), family.values[f"{family.name}_count", labels])


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
    counter = Series("hwd_some_total", "A counter", "host", limit=100, counter=True)
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
    families = read(bytes(Exposition(collected, openmetrics=False)).decode())
    assert {key: value for family in families for key, value in family.values.items()} == expected
    assert [(family.name, family.type) for family in families] == [
        ("hwd_some_gauge", "gauge"),
        ("hwd_some_total", "counter"),
        ("hwd_some_seconds", "histogram"),
    ]
    families = read(bytes(Exposition(collected, openmetrics=True)).decode(), openmetrics=True)
    assert {key: value for family in families for key, value in family.values.items()} == expected
    assert [family.name for family in families] == ["hwd_some_gauge", "hwd_some", "hwd_some_seconds"]
    exemplars = [exemplar for family in families for exemplar in family.exemplars.values()]
    assert {labels for labels, _, _ in exemplars} <= {(("run", text),) for text in plain}
    assert bool(exemplars) is bool(plain)
    assert {at_s for _, _, at_s in exemplars} <= {1_700_000_000.25}


@pytest.mark.parametrize("openmetrics", [False, True])
def test_rack_at_work_is_rendered_to_the_byte_as_in_one_go(metrics: Metrics, rack: None, openmetrics: bool) -> None:
    """The parts hide nothing and repeat nothing."""
    at_once = generate_openmetrics(metrics) if openmetrics else generate_latest(metrics)  # type: ignore[no-untyped-call]
    assert bytes(Exposition(metrics, openmetrics=openmetrics)) == at_once
    assert len(read(at_once.decode(), openmetrics=openmetrics)) > 50


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("series", [PART_SERIES - 1, PART_SERIES, PART_SERIES + 1, 3 * PART_SERIES])
def test_large_family_in_parts_has_one_header_and_all_its_series(series: int, openmetrics: bool) -> None:
    gauge = Series("hwd_some_gauge", "A gauge", "host", limit=series)
    counter = Series("hwd_some_total", "A counter", "host", limit=series, counter=True)
    buckets = Buckets("hwd_some_seconds", "A histogram", "host", limit=series)
    for number in range(series):
        gauge.set(number, f"h{number}")
        counter.set(number, f"h{number}")
        buckets.observe(number, f"h{number}", by={"run": f"r{number}"})
    collected = Collected(gauge, counter, buckets)
    text = bytes(Exposition(collected, openmetrics=openmetrics))
    at_once = generate_openmetrics if openmetrics else generate_latest
    assert text == at_once(Whole(collected))
    families = read(text.decode(), openmetrics=openmetrics)
    assert [len(family.values) for family in families] == [series, series, len(buckets)]


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
        dict(labels)["le"]: exemplar
        for family in read(bytes(exposition).decode(), openmetrics=True)
        for (_, labels), exemplar in family.exemplars.items()
        if ("stage", "firmware") in labels
    }
    assert exemplars == {"6.0": ((("reconfiguration", "r1"),), 6.0, 0.0)}
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
    gauges, histograms = read(b"".join(parts).decode())
    assert turns > 5
    assert set(gauges.values.values()) == {1.0}
    assert {value for (name, _), value in histograms.values.items() if name.endswith("_count")} == {1.0}
    assert {value for (name, _), value in histograms.values.items() if name.endswith("_sum")} == {1.0}


async def test_many_clients_at_once_render_one_part_in_a_turn_of_the_loop() -> None:
    metrics = Metrics(Budget(switches=1, ends=5 * PART_SERIES, hosts=1, ports=1, lanes=1))
    powers: dict[str, float | None] = {f"{port}A": -1.0 for port in range(5 * PART_SERIES)}
    metrics(Document(at_ns=0, wall_ns=0, fact=SwitchPower(switch="ocs1", power_dbm=powers)))
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
    metrics = Metrics(Budget(switches=100, ends=100_000, hosts=1, ports=1, lanes=1))
    for number in range(100):
        powers: dict[str, float | None] = {f"{port}A": -1.0 for port in range(1000)}
        metrics(Document(at_ns=0, wall_ns=0, fact=SwitchPower(switch=f"ocs{number}", power_dbm=powers)))
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
