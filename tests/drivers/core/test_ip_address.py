"""What a text says of the machine that it leads to, the same on every Python."""

from hwd_drivers.core.ip_address import ip_address_of, is_loopback

OWN = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "LocalHost"]
OTHERS = ["10.0.0.1", "::", "::ffff:10.0.0.1", "::7f00:1", "localhost.", "127.1", "", "rack"]


def test_only_this_machine_connects_to_a_loopback_address_and_a_mapped_address_is_the_one_in_it() -> None:
    assert [host for host in (*OWN, *OTHERS) if is_loopback(host)] == OWN
    every = ip_address_of("::ffff:0.0.0.0")
    assert every is not None
    assert every.is_unspecified
    assert str(every) == "0.0.0.0"
