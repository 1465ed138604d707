"""A terminal server in the way of a serial line: said once, with what to do, however often it is tried."""

import asyncio
import logging

import pytest

from hwd_drivers.core.errors import HwdError
from hwd_drivers.devices.abilities import Device
from hwd_drivers.transports.terminal_server import hint_of

from ..stage import Stage

TELNET = b"\xff\xfd\x18\xff\xfb\x01\xff\xfb\x03"
SAID = {
    "telnet": (TELNET, "negotiates telnet: is it a terminal server? Set that port of it to raw TCP"),
    "telnet with a banner": (b"\r\nWelcome\r\n" + TELNET, "negotiates telnet"),
    "busy": (b"Port 4 is busy\r\n", "'Port 4 is busy': does somebody else have this port of a terminal server"),
    "in use": (b"\r\nPort already in use\r\n", "'Port already in use': does somebody else have this port"),
    "refused": (b"% Connection refused by remote host\r\n", "does somebody else have this port"),
    "login": (b"\r\nNS-16\r\nlogin: ", "'NS-16 login:': is it a terminal server that asks for a login"),
}


class Talker(asyncio.Protocol):
    """Says something to whoever connects, and leaves or stays."""

    def __init__(self, words: bytes, *, hangs_up: bool) -> None:
        self._words = words
        self._hangs_up = hangs_up

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._words)
        if self._hangs_up:
            transport.close()


@pytest.mark.parametrize("hangs_up", [True, False])
@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("driver", ["polatis-tl1", "polatis-scpi"])
@pytest.mark.usefixtures("virtual_time")
async def test_what_stands_in_the_way_is_warned_of_once_with_a_hint(
    driver: str, name: str, hangs_up: bool, caplog: pytest.LogCaptureFixture
) -> None:
    words, hint = SAID[name]
    caplog.set_level(logging.DEBUG)
    errors: list[HwdError] = []
    async with Stage(driver, "polatis-6000", "8x8") as stage:
        await stage.dialer.listen(lambda: Talker(words, hangs_up=hangs_up), stage.address)

        async def open_device() -> Device:
            try:
                return await stage.spec.open(stage.context())
            except HwdError as error:
                errors.append(error)
                raise

        stage.run(stage.supervise(open_device, poll_s=1.0, answer_s=0.5))
        await asyncio.sleep(120)
    assert len(errors) > 3
    assert all(hint in str(error) for error in errors)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1, warnings
    assert warnings[0].startswith("ocs1: down: ")
    assert hint in warnings[0]


@pytest.mark.parametrize(
    "first",
    [b"", b"Huber+Suhner Polatis 6000\r\n", b"\xff\x00\xff", b"business hours\r\n", "caf\xe9 \xff".encode("latin-1")],
)
def test_what_a_device_may_say_first_is_no_sign(first: bytes) -> None:
    assert hint_of(first) == ""
