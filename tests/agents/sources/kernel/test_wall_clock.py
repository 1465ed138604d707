"""Which program synchronises the wall clock: the output of its tools, recorded and, if installed, real."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd_agents.sources.kernel.wall_clock import Chrony, PtpForLinux, parse_management, parse_tracking
from hwd_drivers.core.errors import HwdError, LinkError, ProtocolError, RefusedError

WITHIN_S = 30.0
TRACKING = (
    "C0A80001,192.168.0.1,3,1795261139.141671348,-0.000001441,-0.000000012,0.000000224,0.052,-0.003,0.543,"
    "0.000205657,0.000100538,64.2,Normal\n"
)
PORT = """sending: GET PORT_DATA_SET
sending: GET CURRENT_DATA_SET
	f622d5.fffe.ffff01-1 seq 0 RESPONSE MANAGEMENT PORT_DATA_SET 
		portIdentity            f622d5.fffe.ffff01-1
		portState               {state}
		logMinDelayReqInterval  -4
		peerMeanPathDelay       0
		versionNumber           2
sending: GET PARENT_DATA_SET
	f622d5.fffe.ffff01-0 seq 1 RESPONSE MANAGEMENT CURRENT_DATA_SET 
		stepsRemoved     1
		offsetFromMaster -187.0
		meanPathDelay    1609.0
	f622d5.fffe.ffff01-0 seq 2 RESPONSE MANAGEMENT PARENT_DATA_SET 
		parentPortIdentity                    4ae572.fffe.1ee95e-1
		grandmasterIdentity                   4ae572.fffe.1ee95e
"""  # noqa: W291 - as pmc 3.1.1 wrote it


def test_chrony_says_what_it_follows_and_how_well_or_that_it_follows_nobody() -> None:
    wall = parse_tracking(TRACKING)
    assert (wall.synchronised_by, wall.reference, wall.stratum) == ("chrony", "192.168.0.1", 3)
    assert wall.offset_s == pytest.approx(1.441e-6)  # minus in this form is `fast` in the other
    assert wall.error_s == pytest.approx(1.441e-6 + 100.538e-6 + 205.657e-6 / 2)
    with pytest.raises(RefusedError, match="is not synchronised to any source"):
        parse_tracking(TRACKING.replace("Normal", "Not synchronised"))
    with pytest.raises(RefusedError, match="follows only its own clock"):
        parse_tracking(TRACKING.replace("C0A80001", "7F7F0101"))


@example(",,1,,0,,,,,,0,0,,")
@given(st.text() | st.lists(st.text(alphabet="0123456789.-naif,"), max_size=20).map(",".join))
def test_nonsense_of_chronyc_is_refused_with_words(words: str) -> None:
    with pytest.raises((ProtocolError, RefusedError), match="chrony: "):
        parse_tracking(words)


def test_ptp_says_its_grandmaster_and_the_offset_from_it_or_that_it_steers_no_clock() -> None:
    wall = parse_management(PORT.format(state="SLAVE"))
    assert (wall.synchronised_by, wall.reference, wall.stratum) == ("ptp4l", "4ae572.fffe.1ee95e", None)
    assert wall.offset_s == pytest.approx(-187e-9)
    assert wall.error_s == pytest.approx(187e-9 + 1609e-9 / 2)
    with pytest.raises(RefusedError, match="steers no clock: its ports are UNCALIBRATED"):
        parse_management(PORT.format(state="UNCALIBRATED"))


@given(st.text())
def test_nonsense_of_pmc_is_refused_with_words(words: str) -> None:
    with pytest.raises(HwdError, match="ptp4l: "):
        parse_management(words)


async def test_a_tool_that_is_not_installed_and_one_whose_daemon_is_away_are_said(tmp_path: Path) -> None:
    for source, name in ((Chrony(find=lambda tool: None), "chronyc"), (PtpForLinux(find=lambda tool: None), "pmc")):
        with pytest.raises(LinkError, match=f"{name} is not installed"):
            await source.read()
    if shutil.which("chronyc") is None:
        pytest.skip("no chronyc here: apt-get install chrony")
    with pytest.raises(LinkError, match="tracking: failed with status 1"):
        await Chrony("-h", str(tmp_path / "chronyd.sock")).read()


def free_ports(count: int) -> list[int]:
    with_sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in with_sockets:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in with_sockets]
    for one in with_sockets:
        one.close()
    return numbers


@asynccontextmanager
async def chronyd(folder: Path, name: str, *lines: str) -> AsyncIterator[None]:
    """One that touches no clock (`-x`), as whoever runs the tests."""
    config = folder / f"{name}.conf"
    config.write_text("\n".join([*lines, "bindcmdaddress /", f"pidfile {folder / name}.pid"]) + "\n")
    path = f"{os.environ['PATH']}:/usr/sbin"
    program = shutil.which("chronyd", path=path)
    if program is None:
        pytest.skip("no chronyd here: apt-get install chrony")
    user = ("-u", "root") if os.geteuid() == 0 else ("-U",)
    process = await asyncio.create_subprocess_exec(
        *(program, "-x", "-d", *user, "-f", str(config)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_a_real_chronyd_that_follows_another_is_told_of(tmp_path: Path) -> None:
    server, command, own = free_ports(3)
    here = ("cmdport 0", "port 0", "bindcmdaddress 127.0.0.1")
    async with (
        chronyd(tmp_path, "server", "local stratum 8", "allow 127.0.0.1", f"port {server}", f"cmdport {own}", here[2]),
        chronyd(
            tmp_path,
            "client",
            f"server 127.0.0.1 port {server} iburst minpoll -4 maxpoll -4",
            *(here[1], f"cmdport {command}", here[2]),
        ),
    ):
        chrony, alone = (Chrony("-h", "127.0.0.1", "-p", str(number)) for number in (command, own))
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    wall = await chrony.read()
                except (LinkError, RefusedError):
                    continue
                break
            with pytest.raises(RefusedError, match="its own clock"):
                await alone.read()
        assert (wall.synchronised_by, wall.reference, wall.stratum) == ("chrony", "127.0.0.1", 9)
        assert wall.error_s is not None
        assert wall.offset_s is not None
        assert (
            abs(wall.offset_s) <= wall.error_s < 5
        )  # both read the clock of this machine; it is unsure after one measurement


@pytest.mark.root
async def test_a_real_ptp4l_that_only_measures_is_no_keeper(tmp_path: Path) -> None:
    """On the loopback, free running: it touches no clock, and is master of nobody."""
    program = shutil.which("ptp4l", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no ptp4l here: apt-get install linuxptp")
    config = tmp_path / "ptp.cfg"
    config.write_text(f"[global]\nuds_address {tmp_path / 'ptp'}\nfree_running 1\n")
    process = await asyncio.create_subprocess_exec(
        *(program, "-S", "-i", "lo", "-f", str(config)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    why = ""
    source = PtpForLinux(
        "-f", str(config), find=lambda tool: shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin")
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            while not why:
                try:
                    await source.read()
                except LinkError:  # not listening yet
                    continue
                except RefusedError as error:
                    why = str(error)
    finally:
        process.terminate()
        await process.wait()
    assert why.startswith("ptp4l: it runs, and steers no clock: its ports are ")
