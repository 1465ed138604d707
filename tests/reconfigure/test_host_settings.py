"""NIC settings that are in force, from the documents that tell of them."""

from typing import Any

from hwd.model.documents.runs import RunHost
from hwd.reconfigure.desired.history import ACTIONS_MAX, HostSettings

AT_NS = 5_000_000_000


def told(action: str, *, port: str = "h0.eth0", **fields: Any) -> RunHost:
    return RunHost(run="r", host="h0", port=port, action=action, before=None, after=None, **fields)


def test_what_was_set_is_in_force_until_it_is_put_back() -> None:
    settings = HostSettings()
    settings.see(told("autoneg", value=False), at_ns=AT_NS)
    settings.see(told("mtu", value=4200), at_ns=AT_NS)
    settings.see(told("mtu", port="h1.eth0", value=9000), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0", "h2.eth0"]) == {"h0.eth0": {"autoneg": False, "mtu": 4200}}
    settings.see(told("put-back", setting="autoneg"), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0"]) == {"h0.eth0": {"mtu": 4200}}
    settings.see(told("put-back", setting="mtu"), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0"]) == {}


def test_settings_that_a_port_has_several_of_are_not_told_but_were_done() -> None:
    settings = HostSettings()
    settings.see(told("address", value="10.0.0.1/24", seconds=0.5), at_ns=AT_NS)
    assert settings.in_force(["h0.eth0"]) == {}
    (action,) = settings.actions
    assert (action.from_ns, action.to_ns, action.words) == (4_500_000_000, 5_000_000_000, "address")


def test_only_so_many_actions_are_remembered() -> None:
    settings = HostSettings()
    for number in range(ACTIONS_MAX + 10):
        settings.see(told("put-back", setting="mtu"), at_ns=number)
    assert len(settings.actions) == ACTIONS_MAX
    assert settings.actions[-1].to_ns == ACTIONS_MAX + 9
