"""A device that echoes commands with their password in refusals: no log, error, status or document has it.

Real sockets.
"""

import asyncio
import base64
import logging
import ssl
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.values import Capabilities, Crossconnect
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.mask import Mask
from hwd_drivers.transports.masked_dialer import MaskedDialer, mask_of
from hwd_drivers.transports.tls import TlsDialer
from hwd_drivers.twins.registry import twin_of

from ..answers import check_answers
from .parts import Connected
from .stage import Stage

USER: Final = "operator"
PASSWORD: Final = 'Str4p "9\\wire&'
FORMS: Final = (
    PASSWORD,
    PASSWORD.upper(),
    PASSWORD.replace("\\", "\\\\").replace('"', '\\"'),
    base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(),
    base64.b64encode(PASSWORD.encode()).decode(),
)
FRAGMENT: Final = "str4p"

LOGINS: Final = (
    ("polatis-tl1", "polatis-6000", "8x8"),
    ("polatis-restconf", "polatis-6000", "8x8"),
    ("polatis-netconf", "polatis-6000", "8x8"),
    ("calient-tl1", None, None),
    ("calient-rest", None, None),
    ("sonic-ocs", None, None),
)


class _Echo(Connected):
    """Answers whatever comes by `answer`."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer

    @override
    def data_received(self, data: bytes) -> None:
        self.transport.write(self._answer(data))


def _deny_tl1(data: bytes) -> bytes:
    """`ACT-USER::operator:1::"..."` comes back in the comment of its refusal."""
    said = data.decode().strip().rstrip(";")
    return f"\r\n\n   OCS 26-01-31 23:59:59\r\nM  {said.split(':')[3]} DENY\r\n   PICC\r\n   /* {said} */\r\n;".encode()


def _garble_tl1(data: bytes) -> bytes:
    return b"\r\nyou said " + data + b"\r\n;"


def _deny_http(data: bytes) -> bytes:
    """The line with `Authorization` comes back."""
    data = next(line for line in data.split(b"\r\n") if line.lower().startswith(b"authorization"))
    return b"HTTP/1.1 400 Bad\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data)


def _garble_http(data: bytes) -> bytes:
    return b"you said " + data[data.lower().index(b"authorization") :]


def _clean(text: str) -> None:
    assert FRAGMENT not in text.lower(), text
    for form in FORMS:
        assert form.lower() not in text.lower(), text


def _stage(driver: str, model: str | None = None, size: str | None = None) -> Stage:
    return Stage(driver, model, size, login=(USER, PASSWORD), dialer=TcpDialer())


@pytest.mark.parametrize(
    ("driver", "answer"),
    [
        ("polatis-tl1", _deny_tl1),
        ("calient-tl1", _deny_tl1),
        ("polatis-tl1", _garble_tl1),
        ("polatis-restconf", _deny_http),
        ("calient-rest", _deny_http),
        ("polatis-restconf", _garble_http),
        ("calient-rest", _garble_http),
    ],
)
async def test_refused_login_that_is_echoed_leaves_no_password(
    driver: str, answer: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage = _stage(driver)
    listener = await stage.dialer.listen(lambda: _Echo(answer), stage.address)
    stage.address = listener.address
    supervisor = stage.supervise(answer_s=2.0)
    down = asyncio.get_running_loop().create_future()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if ": down: " in record.getMessage() and not down.done():
                down.set_result(None)

    told = Told()
    logging.getLogger("hwd_drivers.devices.supervisor").addHandler(told)
    task = asyncio.create_task(supervisor.run())
    try:
        await asyncio.wait_for(down, 20)
    finally:
        logging.getLogger("hwd_drivers.devices.supervisor").removeHandler(told)
        task.cancel()
        await asyncio.wait((task,))
        await listener.close()
    assert supervisor.cause is not None
    assert "***" in supervisor.cause + caplog.text
    assert stage.documents
    for text in (supervisor.cause, caplog.text, *map(str, stage.documents)):
        _clean(text)


@pytest.mark.parametrize(("driver", "model", "size"), LOGINS)
async def test_refused_change_that_echoes_the_login_leaves_no_password(
    driver: str, model: str | None, size: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage = _stage(driver, model, size)
    denial = twin_of(stage.spec).denial
    assert denial is not None
    logins = {"user": USER, "password": PASSWORD}
    twin = await stage.start(**{key: logins[key] for key in logins if key in stage.spec.twin_options.model_fields})
    said = f"no: {PASSWORD} {PASSWORD.upper()} {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
    supervisor = stage.supervise(answer_s=10.0)
    task = asyncio.create_task(supervisor.run())
    try:
        await asyncio.wait_for(supervisor.wait_up(), 20)
        twin.faults.deny_next = replace(denial, text=said)
        loop = asyncio.get_running_loop()
        with pytest.raises(HwdError) as refused:
            await supervisor.change(remove=(), add=[_pair(stage.capabilities)], deadline_s=loop.time() + 10)
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await twin.close()
    error = refused.value
    assert "***" in str(error), error
    commands = [document for document in stage.documents if document.kind == "switch.command"]
    assert [document.fact.to_data()["outcome"] for document in commands] == ["denied"]
    shown = "".join(traceback.format_exception(error))
    for text in (str(error), repr(error.__dict__), shown, caplog.text, *map(str, stage.documents)):
        _clean(text)


def _pair(capabilities: Capabilities) -> Crossconnect:
    ends = capabilities.ends
    one = next(end for end in ends if str(end.side) != "B")
    other = next(end for end in reversed(ends) if end.port != one.port and str(end.side) != "A")
    return Crossconnect.of(one, other)


def masked(asked: str) -> str:
    password, text = asked.split("\n")
    return Mask(user="u", password=password).text(text)


def test_mask_hides_secrets_and_nothing_else() -> None:
    check_answers(Path(__file__).with_name("masks.txt"), {"password and text": masked})


def test_mask_knows_the_login_of_http() -> None:
    token = base64.b64encode(b"admin:swordfish").decode()
    assert Mask(user="admin", password="swordfish").text(f"Authorization: Basic {token}") == "Authorization: Basic ***"


def test_mask_hides_a_cookie_however_long_it_is() -> None:
    """A device chooses their length; in its texts a cookie ends at a blank."""
    cookie = "".join(f"{number:x}-" for number in range(1000))
    mask = Mask()
    mask.add(cookie)
    encoded = base64.b64encode(cookie.encode()).decode()
    assert mask.text(f"denied {cookie} and {encoded} to you") == "denied *** and *** to you"
    assert mask.text(f"cut off {cookie[:200]}... and {cookie[:400]}...") == "cut off ***... and ***"
    assert mask.text("0-1- is no part of it") == "0-1- is no part of it"


def test_mask_hides_all_of_a_secret_that_begins_with_another() -> None:
    mask = Mask()
    mask.add("sesame-open")
    mask.add("sesame-open-wide")
    assert mask.text("sesame-open-wide sesame-open sesame-open-w...") == "*** *** ***..."


def test_cookies_that_are_new_each_time_cost_next_to_nothing() -> None:
    mask, started_s = Mask(), time.process_time()
    for number in range(1000):
        mask.add(f"{number:04}-" * 800)
        assert mask.text("ocs1: denied: no such port") == "ocs1: denied: no such port"
    assert time.process_time() - started_s < 2.0


def test_mask_is_found_through_wrapped_dialers() -> None:
    """TLS does; without it, what a device echoes over it would be logged as it is."""
    mask = Mask(user="admin", password="swordfish")
    over = TlsDialer(MaskedDialer(TcpDialer(), mask), ssl.create_default_context())
    assert mask_of(over) is mask
    none = mask_of(TcpDialer())
    none.add("a-cookie")
    assert mask_of(TcpDialer()).text("a-cookie") == "a-cookie", "no two sessions share one"
