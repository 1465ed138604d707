"""Light between the NICs of virtual machines: what is written to one tap is read from another, while it is lit."""

import contextlib
import os
import select
from collections.abc import Iterator

import pytest

from hwd.twin.kernel import SWITCH, Crossbar, Keeper, Plug
from hwd_drivers.core.errors import ConfigError

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="needs /dev/net/tun"),
]

WITHIN_S = 5.0
KIND = b"\x88\xb5"  # IEEE 802 local experimental
FRAME = b"\xff" * 6 + b"\x02" * 6 + KIND + b"hello".ljust(60)


@pytest.fixture
def plugs(crossbar: Crossbar) -> list[Plug]:
    return [crossbar.plug_tap(f"{host}.eth0", host=host, interface="eth0") for host in ("m0", "m1")]


@pytest.fixture
def taps(keeper: Keeper, plugs: list[Plug]) -> Iterator[list[int]]:
    """As their machines would hold them."""
    held = [keeper.tap(SWITCH, plug.tap, plug.fibre_ifindex) for plug in plugs]
    yield held
    for tap in held:
        os.close(tap)


def test_a_frame_passes_to_where_the_light_goes_and_nowhere_else(crossbar: Crossbar, taps: list[int]) -> None:
    one, other = taps
    os.write(one, FRAME + b"dark")
    crossbar.light("m0.eth0", "m1.eth0")
    os.write(one, FRAME + b"lit")
    assert _next(other) == FRAME + b"lit"
    crossbar.darken("m0.eth0")
    os.write(one, FRAME + b"dark")
    crossbar.light("m1.eth0", "m0.eth0")
    os.write(other, FRAME + b"back")
    assert _next(one) == FRAME + b"back"
    assert not [frame for frame in _waiting(other) if frame[12:14] == KIND]


def test_a_device_stays_while_its_machine_is_away_and_a_port_is_plugged_once(
    crossbar: Crossbar, plugs: list[Plug], keeper: Keeper
) -> None:
    with pytest.raises(ConfigError, match=r"m0\.eth0: cannot plug: there is a fibre already"):
        crossbar.plug_tap("m0.eth0", host="m0", interface="eth0")
    assert [plug.tap for plug in plugs] == ["fibre1", "fibre2"]
    crossbar.light("m0.eth0", "m1.eth0")
    for words in (b"first", b"second"):
        one, other = (keeper.tap(SWITCH, plug.tap, plug.fibre_ifindex) for plug in plugs)
        os.write(one, FRAME + words)
        assert _next(other) == FRAME + words
        os.close(one)
        os.close(other)


def _next(tap: int) -> bytes:
    """The next frame of ours; the kernel sends some of its own (IPv6)."""
    while select.select([tap], [], [], WITHIN_S)[0]:
        frame = os.read(tap, 65536)
        if frame[12:14] == KIND:
            return frame
    raise AssertionError(f"no frame came in {WITHIN_S:g} s")


def _waiting(tap: int) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        while True:
            yield os.read(tap, 65536)
