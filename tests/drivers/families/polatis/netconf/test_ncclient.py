"""Bare ncclient, which knows nothing of us, against the twin's NETCONF; what RFC 6241 promises is in `rpcs.txt`."""

import base64
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.transports.dial import TcpDialer

from ....stage import Stage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ncclient import manager
    from ncclient.operations import RPCError
    from ncclient.transport.errors import AuthenticationError, TransportError

OPSW = "http://www.polatis.com/yang/optical-switch"
NC = "urn:ietf:params:xml:ns:netconf:base:1.0"
PAIR = "<pair><ingress>{}</ingress><egress>{}</egress></pair>"


@pytest.fixture
async def twin() -> AsyncIterator[Any]:
    async with Stage("polatis-netconf", "polatis-6000", "8x8", dialer=TcpDialer()) as stage:
        yield await stage.start(user="admin", password="root")


@contextmanager
def connected(twin: Any, **other: Any) -> Iterator[Any]:
    host, port = twin.addresses["netconf"].split(":")
    login = {"username": "admin", "password": "root", "hostkey_b64": twin.fronts["netconf"].host_key.split()[1]} | other
    session = manager.connect_ssh(
        host, port=int(port), timeout=30, allow_agent=False, look_for_keys=False, ssh_config=None, **login
    )
    try:
        yield session
    finally:
        if session.connected:
            session.close_session()
        session._session.join(30)


def config(inner: str) -> str:
    return f'<config xmlns="{NC}">{inner}</config>'


async def in_thread(work: Any, twin: Any) -> None:
    """Foreign clients block."""
    offload = ThreadOffload(1)
    try:
        await offload(work, twin)
    finally:
        offload.close()


async def test_sessions_edit_lock_kill_and_are_notified(twin: Any) -> None:
    def work(twin: Any) -> None:
        with connected(twin) as session, connected(twin) as victim:
            assert (session.session_id, victim.session_id) == ("1", "2")
            assert ":base:1.1" in session.server_capabilities
            assert any(f"{OPSW}?module=optical-switch" in each for each in session.server_capabilities)
            made = f'<cross-connects xmlns="{OPSW}">{PAIR.format(1, 9)}</cross-connects>'
            session.lock("running")
            with pytest.raises(RPCError) as raised:
                victim.edit_config(target="running", config=config(made))
            assert (raised.value.tag, raised.value.severity) == ("in-use", "error")
            assert session.edit_config(target="running", config=config(made)).ok
            reply = session.get(filter=("subtree", f'<cross-connects xmlns="{OPSW}"/>'))
            assert [each.text for each in reply.data_ele.iter(f"{{{OPSW}}}ingress", f"{{{OPSW}}}egress")] == ["1", "9"]
            session.create_subscription(stream_name="Polatis")
            alarm = (
                "<port-id>10</port-id><mode>POWER_ALARM_ENABLED</mode><signal-low-threshold>-20</signal-low-threshold>"
            )
            alarms = f'<opm-alarm-config xmlns="{OPSW}"><port>{alarm}</port></opm-alarm-config>'
            session.edit_config(target="running", config=config(alarms))
            note = session.take_notification(timeout=30)
            assert note is not None
            assert "<port-id>10</port-id>" in note.notification_xml
            assert victim.take_notification(block=False) is None
            for wrong in (session.session_id, "77"):
                with pytest.raises(RPCError) as raised:
                    session.kill_session(wrong)
                assert raised.value.tag == "invalid-value"
            session.kill_session(victim.session_id)
            with pytest.raises(TransportError):
                victim.get()

    await in_thread(work, twin)


async def test_a_wrong_password_and_a_wrong_host_key_are_refused(twin: Any) -> None:
    def work(twin: Any) -> None:
        with pytest.raises(AuthenticationError), connected(twin, password="toor"):
            pass
        wrong = base64.b64encode(b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + b"x" * 32).decode()
        with pytest.raises(Exception, match=r"(?i)host ?key"), connected(twin, hostkey_b64=wrong):
            pass

    await in_thread(work, twin)
