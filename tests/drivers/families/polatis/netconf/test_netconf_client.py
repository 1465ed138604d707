"""netconf-client, a second foreign client, against the twin's NETCONF: groups of ports, and refusals with a reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from netconf_client.connect import connect_ssh
from netconf_client.error import RpcError
from netconf_client.ncclient import Manager

from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.twins.faults import Denial

from .conftest import Judge

OPSW = "http://www.polatis.com/yang/optical-switch"
PLTS = "http://www.polatis.com/yang/polatis-switch"
NC = "urn:ietf:params:xml:ns:netconf:base:1.0"


@contextmanager
def connected(twin: PolatisTwin) -> Iterator[Manager]:
    host, port = twin.addresses["netconf"].split(":")
    front: Any = twin.fronts["netconf"]
    with connect_ssh(
        host=host, port=int(port), username="admin", password="root", hostkey_b64=front.host_key.split()[1]
    ) as session:
        yield Manager(session, timeout=10)


def edit(manager: Manager, inner: str) -> None:
    manager.edit_config(f'<config xmlns="{NC}">{inner}</config>')


def group(name: str, ingress: tuple[int, ...], egress: tuple[int, ...]) -> str:
    ports = [f"<ingress>{port}</ingress>" for port in ingress] + [f"<egress>{port}</egress>" for port in egress]
    return f"<group><group-name>{name}</group-name>{''.join(ports)}</group>"


def groups(manager: Manager) -> dict[str, str]:
    """The group that each is connected to."""
    found = manager.get(filter=f'<filter xmlns="{NC}"><groups xmlns="{OPSW}"/></filter>').data_ele
    assert found is not None
    entries = found.iter(f"{{{OPSW}}}group")
    return {
        each.findtext(f"{{{OPSW}}}group-name"): each.findtext(f"{{{OPSW}}}connected-group") or "" for each in entries
    }


async def test_groups_are_connected_in_the_order_of_their_ports_and_disconnected(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as manager:
            made = group("A", (1, 2), (9,)) + group("B", (3,), (12, 11)) + group("C", (4,), (14, 13))
            edit(manager, f'<groups xmlns="{OPSW}">{made}</groups>')
            assert groups(manager) == {"A": "", "B": "", "C": ""}
            join = (
                f'<add-group-cross-connect xmlns="{PLTS}"><group-name-from>{{}}</group-name-from>'
                f"<group-name-to>{{}}</group-name-to></add-group-cross-connect>"
            )
            manager.dispatch(join.format("A", "B"))
            assert sorted(twin.unit.pairs()) == [(1, 12), (2, 11), (3, 9)]
            assert groups(manager) == {"A": "B", "B": "A", "C": ""}
            manager.dispatch(join.format("A", "C"))
            assert sorted(twin.unit.pairs()) == [(1, 14), (2, 13), (4, 9)]
            assert groups(manager) == {"A": "C", "B": "", "C": "A"}
            manager.dispatch(
                f'<delete-group-cross-connect xmlns="{PLTS}"><group-name>C</group-name></delete-group-cross-connect>'
            )
            assert twin.unit.pairs() == []
            edit(
                manager,
                f'<groups xmlns="{OPSW}"><group xmlns:nc="{NC}" nc:operation="delete"><group-name>B</group-name>'
                "</group></groups>",
            )
            assert groups(manager) == {"A": "", "C": ""}

    await judge(work)


REFUSALS = [
    (f'<cross-connects xmlns="{OPSW}"><pair><ingress>1</ingress></pair></cross-connects>',
     "missing-element", "pair without egress"),
    (f'<cross-connects xmlns="{OPSW}"><pair><ingress>1</ingress><egress>99</egress></pair></cross-connects>',
     "invalid-value", "Invalid OXC port: 99"),
    (f'<cross-connects xmlns="{OPSW}"><pair><ingress>1</ingress><egress>2</egress></pair></cross-connects>',
     "invalid-value", "Ports 1 and 2 are on the same side"),
    (f'<voa xmlns="{OPSW}"><port><port-id>9</port-id><atten-mode>VOA_MODE_NONE</atten-mode></port></voa>',
     "operation-not-supported", "This unit has no attenuators"),
    (f'<opm-config xmlns="{OPSW}"><port><port-id>1</port-id><wavelength>1310</wavelength></port>'
     '</opm-config>', "invalid-value", "1"),
    (f'<groups xmlns="{OPSW}">{group("A", (9,), ())}</groups>', "invalid-value", "Port 9 of group A is no input"),
    (f'<groups xmlns="{OPSW}">{group("A", (1,), (17,))}</groups>', "invalid-value", "Invalid OXC port: 17"),
    (f'<groups xmlns="{OPSW}">{group("A", (1,), ()) * 2}</groups>', "bad-element", "Group A stands twice"),
    (f'<groups xmlns="{OPSW}">{"".join(group(f"G{n}", (), ()) for n in range(257))}</groups>',
     "operation-failed", "Over 256 groups"),
    (f'<nothing xmlns="{OPSW}"/>', "unknown-element", "nothing cannot be configured"),
]  # fmt: skip


async def test_a_refusal_has_its_reason(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as manager:
            for inner, tag, message in REFUSALS:
                with pytest.raises(RpcError) as refused:
                    edit(manager, inner)
                assert refused.value.tag == tag, inner
                assert message in str(refused.value.message)
            with pytest.raises(RpcError, match="There is no group X"):
                manager.dispatch(
                    f'<delete-group-cross-connect xmlns="{PLTS}"><group-name>X</group-name>'
                    "</delete-group-cross-connect>"
                )
        assert twin.unit.pairs() == []

    await judge(work)


async def test_a_denial_in_the_words_of_another_protocol_keeps_a_tag_of_netconf(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as manager:
            twin.faults.deny_next = Denial(code="SROF", text="mirror stuck")
            with pytest.raises(RpcError, match="SROF mirror stuck") as refused:
                edit(
                    manager,
                    f'<cross-connects xmlns="{OPSW}"><pair><ingress>1</ingress><egress>9</egress></pair>'
                    "</cross-connects>",
                )
            assert refused.value.tag == "operation-failed"

    await judge(work)
