"""What is wanted of switches, by text: ends alone and in ranges, pairs, links, topologies and files of them."""

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.testbed.ends import RANGE_MAX, parse_ends, ports_in
from hwd.config.testbed.topology_file import load_topology
from hwd.config.testbed.wanted_state import parse_what
from hwd.config.yaml.tree import parse_tree
from hwd.daemon.installed_drivers import load
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError

from ...answers import check_answers

NAMES = ["ring", "pairs", "giant-ring", "h0", "h1.eth0", "dp", "0", "1A", "2B", "none"]
WORDS = [*NAMES, "ocs1:", "hosts=", "rail=", "groups=", "..", "-", ",", " ", "<->"]


def test_pairs_and_ranges_are_written_out_and_a_switch_or_ends_can_be_wanted_empty(opus: Testbed) -> None:
    wanted = parse_what("ocs1:1A-2B, 3B-4A,5A..7A-9B..11B", opus)
    written = "ocs1:1A-2B ocs1:4A-3B ocs1:5A-9B ocs1:6A-10B ocs1:7A-11B"
    assert [str(one) for one in wanted.crossconnects] == written.split()
    assert wanted.links == ()
    wanted = parse_what("ocs1:none", opus)
    assert (wanted.name, wanted.crossconnects, wanted.emptied) == ("ocs1:none", (), ("ocs1",))
    wanted = parse_what("ocs1:1A-2B,3A-none 5B..6B-none", opus)
    assert list(map(str, wanted.crossconnects)) == ["ocs1:1A-2B"]
    assert list(map(str, wanted.freed)) == ["ocs1:3A", "ocs1:5B", "ocs1:6B"]


def test_a_pair_behind_a_switch_that_shall_have_nothing_is_no_pair_of_the_one_before(opus: Testbed) -> None:
    """It reads as one of ocs1, and went to ocs2."""
    two = replace(opus, switches={**opus.switches, "ocs2": replace(opus.switches["ocs1"], name="ocs2")})
    assert [str(one) for one in parse_what("ocs1:none ocs2:1A-1B 2A-2B", two).crossconnects] == [
        "ocs2:1A-1B",
        "ocs2:2A-2B",
    ]
    with pytest.raises(ConfigError, match="2A-2B follows ocs1:none; name its switch, such as ocs1:2A-2B"):
        parse_what("ocs2:1A-1B ocs1:none 2A-2B", two)


def test_links_are_named_by_their_nic_ports_or_by_a_topology_or_a_file(opus: Testbed, tmp_path: Path) -> None:
    for text in (
        "h0.eth0<->h2.eth0,h3.eth1<->h1.eth1",
        " h0.eth0 <-> h2.eth0,  h3.eth1 <->h1.eth1 ",
        "h0.eth0<->h2.eth0 h3.eth1<-> h1.eth1",
    ):
        wanted = parse_what(text, opus)
        assert [str(link) for link in wanted.links] == ["h0.eth0<->h2.eth0", "h1.eth1<->h3.eth1"]
        assert wanted.crossconnects == ()
    wanted = parse_what("  ring hosts=h0,h1   rail=0 ", opus)
    assert wanted.name == "ring hosts=h0,h1 rail=0"
    assert [str(link) for link in wanted.links] == ["h0.eth1<->h1.eth0", "h0.eth0<->h1.eth1"]
    path = tmp_path / "t.yaml"
    path.write_text("topology: two\nlinks:\n  - h0.eth0 <-> h1.eth0\n  - h3.eth1<->h2.eth1\n")
    links = load_topology(path, opus).require().links
    assert [str(link) for link in links] == ["h0.eth0<->h1.eth0", "h2.eth1<->h3.eth1"]


def test_what_means_nothing_is_refused(opus: Testbed) -> None:
    def asked(text: str) -> str:
        with pytest.raises(ConfigError) as refused:
            parse_what(text, opus)
        return str(refused.value)

    def of_file(text: str) -> list[str]:
        loaded = load_topology(parse_tree(text, file="t.yaml"), opus)
        assert loaded.value is None
        return [str(problem).removeprefix("t.yaml:") for problem in loaded.problems]

    golden = Path(__file__).with_name("topology_refusals.txt")
    check_answers(golden, {"what is asked for": asked, "topology file": of_file})


@given(st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=9).map("".join))
def test_any_text_gives_something_wanted_or_a_config_error(opus: Testbed, text: str) -> None:
    with contextlib.suppress(ConfigError):
        wanted = parse_what(text, opus)
        assert wanted.links or wanted.crossconnects or wanted.emptied or wanted.freed


HOSTILE = {
    "ocs1:none " * 4_900 + "ocs1:1A-1B " * 4_500: "named with pairs and with none",
    "ring groups=" + "dp," * 33_000: "a group is named twice",
    "r" * 99_999: "is no topology",
    "ring hosts=" + "h" * 99_000: "no host",
    "a " * 400_000: "are over the 100000",
}


def test_text_of_allowed_length_and_a_file_full_of_mistakes_are_refused_at_once(opus: Testbed) -> None:
    """What is asked for over HTTP is read in the daemon's loop; to look for the nearest known name takes time."""
    for text, said in HOSTILE.items():
        started_s = time.process_time()
        with pytest.raises(ConfigError, match=said):
            parse_what(text, opus)
        assert time.process_time() - started_s < 0.5
    text = "topology: bad\nlinks:\n" + "".join(f"- h{link}.eth9<->x{link}.eth0\n" for link in range(30_000))
    started_s = time.process_time()
    found = load_topology(parse_tree(text, file="bad.yaml"), opus)
    assert time.process_time() - started_s < 5
    assert len(found.problems) <= 102
    assert "over 100 problems; the rest was not checked" in found.problems[-1].text


TWO_SWITCHES = """\
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
def two(tmp_path_factory: pytest.TempPathFactory) -> Testbed:
    path: Path = tmp_path_factory.mktemp("ends") / "two.yaml"
    path.write_text(TWO_SWITCHES)
    return load(path).require()


def test_one_end_or_a_range_of_them_and_nothing_else(two: Testbed) -> None:
    read = {"3A": "3A", "4A..6A": "4A 5A 6A", "2..3": "2 3", "in": "in", "7B..7B": "7B"}
    assert {text: " ".join(map(str, ports_in(text))) for text in read} == read
    for text in ("", "4A..6B", "6A..4A", "A..B", "1A..", f"1A..{RANGE_MAX + 1}A", "1A-2B", "in..out"):
        with pytest.raises(ConfigError):
            ports_in(text)
    ends = parse_ends("ocs1", ["3A", "1A..4A", "1B"], two)
    assert " ".join(map(str, ends)) == "3A 1A 2A 4A 1B", "each once, in the order in which they were named"


def test_what_is_not_there_or_another_ones_is_named(two: Testbed) -> None:
    refused = {
        ("ocs3", "1A"): "'ocs3' is no switch of testbed two",
        ("ocs1", "8A..10A 1C"): "ocs1: it has no 9A, 10A, 1C; its ends go from 1A to 8B",
        ("ocs1", "8A..10A"): "ocs1: it has no 9A, 10A; its ends go from 1A to 8B",
    }
    for (switch, ends), said in refused.items():
        with pytest.raises(ConfigError, match=said):
            parse_ends(switch, ends.split(), two)
    with pytest.raises(RefusedError, match="ocs2: it belongs to host h0, which alone drives it"):
        parse_ends("ocs2", ["1A"], two)
