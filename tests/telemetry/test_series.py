"""Series and buckets: what is set is there, what is dropped is not, and there are no more than allowed."""

from prometheus_client import generate_latest

from hwd.telemetry.buckets import BOUNDS_S, SERIES, Buckets
from hwd.telemetry.series import Series


def lines(metric: Series | Buckets) -> list[str]:
    return [line for line in generate_latest(metric).decode().splitlines() if not line.startswith("#")]


def test_drop_takes_what_begins_so_and_nothing_else() -> None:
    series = Series("g", "", "switch", "port", limit=9)
    for switch, port in (("ocs1", "1"), ("ocs1", "2"), ("ocs2", "1")):
        series.set(0, switch, port)
    series.drop("ocs1", "2")
    series.drop("ocs1", "3")
    assert lines(series) == ['g{port="1",switch="ocs1"} 0.0', 'g{port="1",switch="ocs2"} 0.0']
    series.drop("ocs1")
    series.drop("ocs3")
    assert lines(series) == ['g{port="1",switch="ocs2"} 0.0']
    series.drop()
    assert lines(series) == []


def test_what_is_replaced_is_all_that_begins_so() -> None:
    series = Series("g", "", "host", "device", "lane", limit=4)
    series.set(0, "h0", "eth1", "1")
    series.replace({"1": -2, "2": -3, "3": -4}, "h0", "eth0")
    series.replace({"1": -2.5, "3": -4, "4": -5}, "h0", "eth0")
    assert lines(series) == [
        'g{device="eth1",host="h0",lane="1"} 0.0',
        'g{device="eth0",host="h0",lane="1"} -2.5',
        'g{device="eth0",host="h0",lane="3"} -4.0',
        'g{device="eth0",host="h0",lane="4"} -5.0',
    ]
    assert series.refused == 0
    series.replace({}, "h0", "eth0")
    assert lines(series) == ['g{device="eth1",host="h0",lane="1"} 0.0']
    series.replace({"1": 1, "2": 2}, "x" * 200 + "a", "eth0")
    series.replace({"2": 2}, "x" * 200 + "b", "eth0")
    assert len(series) == 2


def test_room_that_was_dropped_can_be_used_again() -> None:
    series = Series("g", "", "host", limit=1)
    series.set(1, "h0")
    series.set(1, "h1")
    assert (lines(series), series.refused) == (['g{host="h0"} 1.0'], 1)
    series.set(2, "h0")
    assert lines(series) == ['g{host="h0"} 2.0']
    series.drop("h0")
    series.set(1, "h1")
    assert (lines(series), series.refused) == (['g{host="h1"} 1.0'], 1)
    cut = Series("g", "", "host", limit=9)
    cut.set(1, "x" * 200 + "a")
    cut.set(2, "x" * 200 + "b")
    assert len(cut) == 1, "labels that are cut to the same are one series"


def test_histograms_over_the_limit_are_refused() -> None:
    buckets = Buckets("s", "", "switch", limit=2 * SERIES)
    for name in ("a", "b", "c", "a"):
        buckets.observe(1.0, name)
    assert (len(buckets), buckets.refused, buckets.count("a"), buckets.count("c")) == (2 * SERIES, 1, 2, 0)
    assert len(lines(buckets)) == len(buckets)
    assert (BOUNDS_S[0], BOUNDS_S[-1]) == (100e-6, 60.0), "the kernel's carrier is in the first"
