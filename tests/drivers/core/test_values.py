"""What texts say of crossconnects and of machines, the same on every Python."""

import copy
import pickle
import tracemalloc

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ip_address import ip_address_of, is_loopback
from hwd_drivers.core.structs import from_json, to_json
from hwd_drivers.core.values import Crossconnect, FibreEnd, PortSide

ENDS = {"1A-2B": "1A-2B", "2B-1A": "1A-2B", "3-7": "3-7", "10-9": "9-10"}
WORDS = {"in-3": "in-3", "3-in": "in-3", "11-com": "com-11", "out-in": "in-out"}
OWN = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "LocalHost"]
OTHERS = ["10.0.0.1", "::", "::ffff:10.0.0.1", "::7f00:1", "localhost.", "127.1", "", "rack"]


def test_side_a_is_first_then_a_word_then_the_smaller_port() -> None:
    for written, text in (ENDS | WORDS).items():
        assert str(Crossconnect.parse(written)) == text, written
        assert Crossconnect.parse(written) == Crossconnect.parse(text), written


def test_a_value_is_its_text_with_its_parts_however_it_was_made_and_what_is_none_is_refused() -> None:
    for text in ("ocs1.3A", "h0.eth1.tx", "h0.eth1/2.tx", "tp.in"):
        end = FibreEnd.parse(text)
        again = FibreEnd(owner=end.owner, port=end.port, lane=end.lane, side=end.side)
        made = (again, copy.deepcopy(end), pickle.loads(pickle.dumps(end)), from_json(to_json(end), FibreEnd))
        assert {*made} == {text}
        assert {one.sort_key() for one in made} == {end.sort_key()}
    for text in ("", "\N{ARABIC-INDIC DIGIT THREE}A", "3A-", "a b"):
        with pytest.raises(ConfigError):
            PortSide.parse(text)


def test_nothing_is_kept_of_a_long_text_from_outside() -> None:
    tracemalloc.start()
    for number in range(20):
        text = f"{number}{'A' * 200_000}"
        with pytest.raises(ConfigError):
            Crossconnect.parse(text)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_any_text_is_written_as_a_text() -> None:
    class Name(str):
        __slots__ = ()

    assert to_json({"a": [Name("x")]}) == b'{"a":["x"]}'


def test_only_this_machine_connects_to_a_loopback_address_and_a_mapped_address_is_the_one_in_it() -> None:
    assert [host for host in (*OWN, *OTHERS) if is_loopback(host)] == OWN
    every = ip_address_of("::ffff:0.0.0.0")
    assert every is not None
    assert every.is_unspecified
    assert str(every) == "0.0.0.0"
