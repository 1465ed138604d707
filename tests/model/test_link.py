import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd_drivers.core.errors import ConfigError

PORTS = st.builds(
    NicPortId, host=st.sampled_from(["h0", "h2", "h10"]), port=st.sampled_from(["eth0", "eth1", "eth9", "eth10"])
)


def test_smaller_end_stands_first_by_number() -> None:
    assert str(Link.parse("h10.eth0 <-> h2.eth0")) == "h2.eth0<->h10.eth0"
    assert str(Link.parse("h0.eth10<->h0.eth9")) == "h0.eth9<->h0.eth10"


@given(one=PORTS, other=PORTS)
def test_link_is_the_same_from_both_ends_and_reads_its_own_text(one: NicPortId, other: NicPortId) -> None:
    if one == other:
        with pytest.raises(ConfigError, match="cannot be joined to itself"):
            Link.of(one, other)
        return
    link = Link.of(one, other)
    assert link == Link.of(other, one) == Link.parse(str(link))
    assert (link.other(one), link.other(other)) == (other, one)


def test_crossconnect_names_its_switch() -> None:
    assert str(SwitchCrossconnect.parse("ocs1:2B-1A")) == "ocs1:1A-2B"
    with pytest.raises(ConfigError, match="with its switch"):
        SwitchCrossconnect.parse("1A-2B")
