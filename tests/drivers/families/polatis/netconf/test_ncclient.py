"""Bare ncclient, which knows nothing of us, against the twin's NETCONF: what it gets is what RFC 6241 promises."""

import asyncio
import base64
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType
from hwd_drivers.families.polatis.twin import PolatisTwin

from .conftest import Judge

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ncclient import manager
    from ncclient.operations import RPCError
    from ncclient.transport.errors import AuthenticationError, TransportError
    from ncclient.xml_ import to_ele

OPSW = "http://www.polatis.com/yang/optical-switch"
NC = "urn:ietf:params:xml:ns:netconf:base:1.0"


@contextmanager
def connected(twin: PolatisTwin, **other: Any) -> Iterator[Any]:
    host, port = twin.addresses["netconf"].split(":")
    front: Any = twin.fronts["netconf"]
    login = {"username": "admin", "password": "root", "hostkey_b64": front.host_key.split()[1]} | other
    session = manager.connect_ssh(
        host, port=int(port), timeout=10, allow_agent=False, look_for_keys=False, ssh_config=None, **login
    )
    try:
        yield session
    finally:
        if session.connected:
            session.close_session()
        session._session.join(5)


def config(*pairs: str) -> str:
    return f'<config xmlns="{NC}"><cross-connects xmlns="{OPSW}">{"".join(pairs)}</cross-connects></config>'


def pair(ingress: int, egress: int | None = None, operation: str = "") -> str:
    said = f' xmlns:nc="{NC}" nc:operation="{operation}"' if operation else ""
    return f"<pair{said}><ingress>{ingress}</ingress>{'' if egress is None else f'<egress>{egress}</egress>'}</pair>"


def pairs(session: Any) -> list[tuple[int, int]]:
    reply = session.get(filter=("subtree", f'<cross-connects xmlns="{OPSW}"/>'))
    texts = [[each.text for each in entry] for entry in reply.data_ele.iter(f"{{{OPSW}}}pair")]
    return [(int(one), int(other)) for one, other in texts]


async def test_hello_and_capabilities(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            assert session.session_id == "1"
            assert ":base:1.1" in session.server_capabilities
            assert any(f"{OPSW}?module=optical-switch" in each for each in session.server_capabilities)
        with connected(twin) as session:
            assert session.session_id == "2"

    await judge(work)


@pytest.mark.parametrize("base", ["1.0", "1.1"])
async def test_many_pairs_in_one_edit_read_back_moved_and_deleted(judge: Judge, base: str) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            assert (":base:1.1" in session.server_capabilities) is (base == "1.1")
            assert session.edit_config(target="running", config=config(*(pair(n, n + 8) for n in range(1, 9)))).ok
            assert pairs(session) == [(n, n + 8) for n in range(1, 9)]
            session.edit_config(target="running", config=config(pair(1, 10)))
            assert pairs(session)[:2] == [(1, 10), (3, 11)], "egress 10 was moved"
            session.edit_config(target="running", config=config(pair(1, operation="delete"), pair(2, 16)))
            assert pairs(session)[0] == (2, 16)
            bare = (
                f'<config><cross-connects xmlns="{OPSW}"><pair operation="delete"><ingress> 2 </ingress></pair>'
                "</cross-connects></config>"
            )
            session.edit_config(target="running", config=bare)
            assert pairs(session)[0] == (3, 11), "as a published program writes it"
            everything = (
                f'<config xmlns="{NC}"><cross-connects xmlns="{OPSW}" xmlns:nc="{NC}" nc:operation="delete"/></config>'
            )
            session.edit_config(target="running", config=everything)
            assert pairs(session) == []

    await judge(work, netconf_base=base)


async def test_default_operations_and_operations(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:

            def edit(*entries: str, default: str | None = None) -> None:
                session.edit_config(target="running", config=config(*entries), default_operation=default)

            edit(pair(1, 9), pair(2, 10))
            edit(pair(3, 11), default="replace")
            assert pairs(session) == [(3, 11)]
            edit(pair(4, 12, "create"), pair(3, operation="remove"), pair(8, operation="remove"), default="none")
            assert pairs(session) == [(4, 12)]
            edit(pair(4, 13, "replace"))
            assert pairs(session) == [(4, 13)]
            for entry, tag in (
                (pair(5, operation="delete"), "data-missing"),
                (pair(4, 12, "create"), "data-exists"),
                (pair(99, 9), "invalid-value"),
                (pair(1, 2), "invalid-value"),
                (pair(1), "missing-element"),
                (pair(1, 9, "explode"), "bad-attribute"),
                ("<triple/>", "unknown-element"),
            ):
                with pytest.raises(RPCError) as raised:
                    edit(pair(6, 14), entry)
                assert raised.value.tag == tag, entry
            assert pairs(session) == [(4, 13)], "a refused edit does nothing"

    await judge(work)


async def test_a_port_in_use_is_refused_by_option(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            session.edit_config(target="running", config=config(pair(1, 9)))
            with pytest.raises(RPCError) as raised:
                session.edit_config(target="running", config=config(pair(2, 9)))
            assert (raised.value.tag, raised.value.severity, raised.value.type) == (
                "data-exists",
                "error",
                "application",
            )

    await judge(work, in_use="deny")


async def test_get_config_has_no_state_and_filters_select(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            everything = session.get_config(source="running").data_xml
            assert "opm-config" in everything
            assert "opm-power" not in everything
            everything = session.get().data_xml
            assert "product-information" in everything
            assert everything.count("<status>ENABLED</status>") == 16
            power = f'<opm-power xmlns="{OPSW}"><port><port-id>12</port-id></port></opm-power>'
            reply = session.get(filter=("subtree", power)).data_ele
            assert [each.text for each in reply.iter(f"{{{OPSW}}}power")] == ["-60.00"]
            with pytest.raises(RPCError) as raised:
                session.get_config(source="candidate")
            assert raised.value.tag == "operation-not-supported"

    await judge(work)


async def test_locks_are_held_by_one_session_and_go_with_it(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as other:
            with connected(twin) as session:
                session.lock("running")
                for refused, tag in ((other.lock, "lock-denied"), (other.unlock, "operation-failed")):
                    with pytest.raises(RPCError) as raised:
                        refused("running")
                    assert raised.value.tag == tag
                with pytest.raises(RPCError) as raised:
                    other.edit_config(target="running", config=config(pair(1, 9)))
                assert raised.value.tag == "in-use"
                session.edit_config(target="running", config=config(pair(1, 9)))
                session.unlock("running")
                other.lock("running")
                other.unlock("running")
                session.lock("running")
            other.edit_config(target="running", config=config(pair(2, 10)))

    await judge(work)


async def test_kill_session_ends_another_one(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session, connected(twin) as victim:
            for wrong in (session.session_id, "77"):
                with pytest.raises(RPCError) as raised:
                    session.kill_session(wrong)
                assert raised.value.tag == "invalid-value"
            session.kill_session(victim.session_id)
            with pytest.raises(TransportError):
                victim.get()
            assert pairs(session) == []

    await judge(work)


async def test_alarms_come_as_notifications_to_those_who_subscribed(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> str:
        with connected(twin) as session, connected(twin) as deaf:
            with pytest.raises(RPCError):
                session.create_subscription(stream_name="weather")
            session.create_subscription(stream_name="Polatis")
            twin_loop.call_soon_threadsafe(darken, twin)
            note = session.take_notification(timeout=5)
            assert note is not None
            assert pairs(session) == [], "operations go on beside notifications"
            assert deaf.take_notification(block=False) is None
            return str(note.notification_xml)

    def darken(twin: PolatisTwin) -> None:
        twin.unit.label(9, "to host 1")
        twin.unit.alarms.configure((9,), AlarmType.LOS, mode=AlarmMode.CONT, low_dbm=-20.0)

    twin_loop = asyncio.get_running_loop()
    text = await judge(work)
    assert "<port-power-alarm" in text
    assert "<port-id>9</port-id><port-label>to host 1</port-label>" in text
    assert "<eventTime>20" in text


SYSTEM = "urn:ietf:params:xml:ns:yang:ietf-system"


def datetime_rpc(text: str) -> str:
    return f'<set-current-datetime xmlns="{SYSTEM}"><current-datetime>{text}</current-datetime></set-current-datetime>'


async def test_clock_that_a_client_sets_is_that_of_notifications(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> str:
        with connected(twin) as session:
            assert session.dispatch(to_ele(datetime_rpc("2031-05-06T07:08:09.5+02:00"))).ok
            session.create_subscription(stream_name="Polatis")
            twin_loop.call_soon_threadsafe(
                lambda: twin.unit.alarms.configure((9,), AlarmType.LOS, mode=AlarmMode.CONT, low_dbm=-20.0)
            )
            note = session.take_notification(timeout=5)
            assert note is not None
            return str(note.notification_xml)

    twin_loop = asyncio.get_running_loop()
    assert "<eventTime>2031-05-06T05:08:" in await judge(work)


REFUSED = [
    (f'<set-current-datetime xmlns="{SYSTEM}"/>', "missing-element"),
    (datetime_rpc("yesterday"), "invalid-value"),
    (datetime_rpc("2031-05-06 07:08:09"), "invalid-value"),
    (datetime_rpc("2031-02-31T07:08:09Z"), "invalid-value"),
    (datetime_rpc("9999-12-31T23:59:59Z"), "invalid-value"),
    (datetime_rpc("0001-01-01T00:00:00+14:00"), "invalid-value"),
    (f'<system-restart xmlns="{SYSTEM}"/>', "operation-not-supported"),
    (f'<system-shutdown xmlns="{SYSTEM}"/>', "operation-not-supported"),
]


async def test_operation_on_the_system_that_cannot_be_done_has_its_tag(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            for rpc, tag in REFUSED:
                with pytest.raises(RPCError) as raised:
                    session.dispatch(to_ele(rpc))
                assert raised.value.tag == tag, rpc
                assert pairs(session) == [], "the session goes on"

    await judge(work)


async def test_port_states_by_the_units_own_rpc_and_what_is_not_supported(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            assert session.dispatch(
                to_ele(f'<port-set-state xmlns="{OPSW}"><port-disab>3</port-disab></port-set-state>')
            ).ok
            states = f'<port-config xmlns="{OPSW}"><port><port-id>3</port-id><status/></port></port-config>'
            assert "<status>DISABLED</status>" in session.get(filter=("subtree", states)).data_xml
            for unknown in (f'<port-shutter-set-state xmlns="{OPSW}"/>', f'<commit xmlns="{NC}"/>'):
                with pytest.raises(RPCError) as raised:
                    session.dispatch(to_ele(unknown))
                assert raised.value.tag == "operation-not-supported"

    await judge(work)


async def test_a_wrong_password_and_a_wrong_host_key_are_refused(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with pytest.raises(AuthenticationError), connected(twin, password="toor"):
            pass
        wrong = base64.b64encode(b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + b"x" * 32).decode()
        with pytest.raises(Exception, match=r"(?i)host ?key"), connected(twin, hostkey_b64=wrong):
            pass

    await judge(work)


async def test_configuration_of_ports_monitors_alarms_and_attenuators(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:

            def edit(inner: str) -> None:
                session.edit_config(target="running", config=f'<config xmlns="{NC}">{inner}</config>')

            def get(name: str, port: int) -> str:
                wanted = f'<{name} xmlns="{OPSW}"><port><port-id>{port}</port-id></port></{name}>'
                return str(session.get(filter=("subtree", wanted)).data_xml)

            edit(f'<port-config xmlns="{OPSW}"><port><port-id>1</port-id><label>host 1</label></port></port-config>')
            assert "<label>host 1</label>" in get("port-config", 1)
            edit(
                f'<port-config xmlns="{OPSW}"><port><port-id>1</port-id><peer-port>ocs2:7</peer-port></port>'
                "</port-config>"
            )
            found = session.get_config(source="running", filter=("subtree", f'<port-config xmlns="{OPSW}"/>')).data_xml
            assert found.count("<port>") == 16
            assert "<port-id>1</port-id><label>host 1</label><peer-port>ocs2:7</peer-port>" in found
            edit(
                f'<ports xmlns="{OPSW}"><port><port-id>2</port-id><port-label>old</port-label>'
                "<port-state>PC_DISABLED</port-state></port></ports>"
            )
            assert "<status>DISABLED</status><label>old</label>" in get("port-config", 2)
            assert "<port-state>PC_DISABLED</port-state><port-status>PO_DISABLED</port-status>" in get("ports", 2)
            edit(
                f'<opm-config xmlns="{OPSW}"><port><port-id>9</port-id><wavelength>1310</wavelength>'
                "<offset>-0.5</offset></port></opm-config>"
            )
            assert "<wavelength>1310.00</wavelength><offset>-0.50</offset><averaging-time>4</averaging-time>" in get(
                "opm-config", 9
            )
            edit(
                f'<opm-alarm-config xmlns="{OPSW}"><port><port-id>9</port-id><mode>POWER_ALARM_ENABLED</mode>'
                "<signal-degrade-threshold>-15</signal-degrade-threshold></port></opm-alarm-config>"
            )
            assert "<mode>POWER_ALARM_ENABLED</mode>" in get("opm-alarm-config", 9)
            assert "<signal-degrade-threshold>-15.00<" in get("opm-alarm-config", 9)
            edit(
                f'<voa xmlns="{OPSW}"><port><port-id>9</port-id><atten-mode>VOA_MODE_ABSOLUTE</atten-mode>'
                "<atten-level>-12.5</atten-level></port></voa>"
            )
            assert "<atten-mode>VOA_MODE_ABSOLUTE</atten-mode><atten-level>-12.50</atten-level>" in get("voa", 9)
            edit(f'<voa xmlns="{OPSW}"><port xmlns:nc="{NC}" nc:operation="delete"><port-id>9</port-id></port></voa>')
            assert "<atten-mode>VOA_MODE_NONE</atten-mode>" in get("voa", 9)
            edit(
                f'<system-config xmlns="{OPSW}">'
                '<startup-mode xmlns="http://www.polatis.com/yang/polatis-switch">MODE_PRESERVE</startup-mode>'
                "</system-config>"
            )
            assert twin.faults.restores
            for wrong in (
                "<voa><port><port-id>1</port-id><atten-mode>VOA_MODE_NONE</atten-mode></port></voa>",
                "<opm-config><port><port-id>9</port-id><wavelength>9</wavelength></port></opm-config>",
                "<opm-config><port><port-id>9</port-id><offset>much</offset></port></opm-config>",
                "<port-config><port><port-id>9</port-id><status>ENABLED</status></port></port-config>",
                "<product-information/>",
            ):
                with pytest.raises(RPCError):
                    edit(
                        wrong.replace(">", f' xmlns="{OPSW}">', 1)
                        if "/>" not in wrong
                        else f'<product-information xmlns="{OPSW}"/>'
                    )

    await judge(work, model="polatis-vst")


async def test_on_a_single_sided_unit_a_pair_is_read_and_deleted_by_the_ingress_it_was_made_with(judge: Judge) -> None:
    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            session.edit_config(target="running", config=config(pair(7, 3), pair(1, 2)))
            assert pairs(session) == [(1, 2), (7, 3)]
            session.edit_config(target="running", config=config(pair(3, 7)))
            assert pairs(session) == [(1, 2), (3, 7)]
            session.edit_config(target="running", config=config(pair(7, 3), pair(2, 1)))
            session.edit_config(target="running", config=config(pair(7, operation="delete")))
            assert pairs(session) == [(2, 1)]

    await judge(work, size="8")


async def test_shutters_are_closed_by_the_rpc_that_one_program_sends(judge: Judge) -> None:
    """It is not in the vendor's published model, so a unit may not know it."""
    rpc = (
        '<port-shutter-set-state xmlns="http://www.polatis.com/yang/polatis-switch"><{}>9</{}></port-shutter-set-state>'
    )

    def work(twin: PolatisTwin) -> None:
        with connected(twin) as session:
            session.dispatch(to_ele(rpc.format("port-disab", "port-disab")))
            assert twin.unit.is_shut(9)
            session.dispatch(to_ele(rpc.format("port-enab", "port-enab")))
            assert not twin.unit.is_shut(9)

    def refused(twin: PolatisTwin) -> None:
        with connected(twin) as session, pytest.raises(RPCError, match="port-shutter-set-state is not supported"):
            session.dispatch(to_ele(rpc.format("port-disab", "port-disab")))

    await judge(work)
    await judge(refused, netconf_shutters=False)
