"""Fibre ends by text: alone, in ranges, of a switch that the daemon drives."""

from pathlib import Path

import pytest

from hwd.config.testbed.ends import RANGE_MAX, parse_ends, ports_in
from hwd.daemon.installed_drivers import load
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError

TESTBED = """\
testbed: two
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8,
    address: "127.0.0.1:1", login: {user: u, password: {env: P}}}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, owner: h0,
    address: "127.0.0.1:2", login: {user: u, password: {env: P}}}
hosts: {h0: {nics: {}}}
fibres: []
"""


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Testbed:
    path: Path = tmp_path_factory.mktemp("ends") / "two.yaml"
    path.write_text(TESTBED)
    return load(path).require()


@pytest.mark.parametrize(
    ("text", "ends"),
    [("3A", "3A"), ("4A..6A", "4A 5A 6A"), ("2..3", "2 3"), ("in", "in"), ("7B..7B", "7B")],
)
def test_one_end_or_a_range_of_them(text: str, ends: str) -> None:
    assert " ".join(map(str, ports_in(text))) == ends


@pytest.mark.parametrize("text", ["", "4A..6B", "6A..4A", "A..B", "1A..", f"1A..{RANGE_MAX + 1}A", "1A-2B", "in..out"])
def test_anything_else_is_bad_input(text: str) -> None:
    with pytest.raises(ConfigError):
        ports_in(text)


def test_each_end_is_there_once_in_the_order_in_which_they_were_named(testbed: Testbed) -> None:
    assert " ".join(map(str, parse_ends("ocs1", ["3A", "1A..4A", "1B"], testbed))) == "3A 1A 2A 4A 1B"


@pytest.mark.parametrize(
    ("switch", "ends", "said"),
    [
        ("ocs3", ["1A"], "'ocs3' is no switch of testbed two"),
        ("ocs1", ["8A..10A", "1C"], "ocs1: it has no 9A, 10A, 1C; its ends go from 1A to 8B"),
        ("ocs1", ["8A..10A"], "ocs1: it has no 9A, 10A; its ends go from 1A to 8B"),
    ],
)
def test_what_is_not_there_is_named(testbed: Testbed, switch: str, ends: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_ends(switch, ends, testbed)


def test_a_hosts_own_switch_is_its_own(testbed: Testbed) -> None:
    with pytest.raises(RefusedError, match="ocs2: it belongs to host h0, which alone drives it"):
        parse_ends("ocs2", ["1A"], testbed)
