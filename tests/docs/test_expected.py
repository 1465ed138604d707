"""What of an output must be the same, and what may differ."""

import pytest

from docs.blocks.expected import difference

STATUS = """
switch  state  crossconnects
ocs1    up     8
h0      up     +5.000308 s ± 410 µs
"""


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        ("run ivw8vit1 succeeded", "run 9z1xxabc succeeded"),
        ("plan 91f23a1e3e0e: pairs (update)", "plan 0123456789ab: pairs (update)"),
        ("took 7.06 s", "took 12 s"),
        ("h0  12.1 ms  3.1 s", "h0  not resolved (± 26.0 ms)  3 s"),
        ("h0  not resolved (± 26.0 ms)  3.1 s", "h0  31.0 ms  3.1 s"),
        ("05:32:35 INFO    http http://127.0.0.1:8642", "17:01:59 INFO http   http://127.0.0.1:40001"),
        ("data /home/you/.local/state/hwd/rack", "data /tmp/x/.local/state/hwd/rack"),
        ("started 2026-11-21 05:32:59", "started 2027-01-01 00:00:00"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("...", ""),
        ("rolled-back: ...", "rolled-back: the daemon ended"),
        (STATUS, STATUS.replace("5.000308", "5.100000").replace("410", "9")),
    ],
)
def test_it_is_the_same(shown: str, seen: str) -> None:
    assert difference(shown, seen) == ""


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        ("run ivw8vit1 succeeded", "run ivw8vit1 failed"),
        ("4 links, 4 seen ready", "4 links, 3 seen ready"),
        ("ocs1: +1A-5B", "ocs1: +1A-6B"),
        ("h0  12.1 ms", "h0  unknown"),
        ("h0  not resolved (± 26.0 ms)", "h0  unknown"),
        ("a\nc", "a\nb\nc"),
        ("a\n...\nd", "a\nb\nc"),
        ("a", "a\nb"),
        ("rolled-back: ...", "confirmed: ..."),
        (STATUS, STATUS.replace("ocs1    up ", "ocs1    down")),
    ],
)
def test_it_is_not_the_same(shown: str, seen: str) -> None:
    assert difference(shown, seen)
