"""What texts say of crossconnects and of machines, the same on every Python."""

from hwd_drivers.core.ip_address import ip_address_of, is_loopback
from hwd_drivers.core.values import Crossconnect

ENDS = {"1A-2B": "1A-2B", "2B-1A": "1A-2B", "3-7": "3-7", "10-9": "9-10"}
WORDS = {"in-3": "in-3", "3-in": "in-3", "11-com": "com-11", "out-in": "in-out"}
OWN = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "LocalHost"]
OTHERS = ["10.0.0.1", "::", "::ffff:10.0.0.1", "::7f00:1", "localhost.", "127.1", "", "rack"]


def test_side_a_is_first_then_a_word_then_the_smaller_port() -> None:
    for written, text in (ENDS | WORDS).items():
        assert str(Crossconnect.parse(written)) == text, written
        assert Crossconnect.parse(written) == Crossconnect.parse(text), written


def test_only_this_machine_connects_to_a_loopback_address_and_a_mapped_address_is_the_one_in_it() -> None:
    assert [host for host in (*OWN, *OTHERS) if is_loopback(host)] == OWN
    every = ip_address_of("::ffff:0.0.0.0")
    assert every is not None
    assert every.is_unspecified
    assert str(every) == "0.0.0.0"
