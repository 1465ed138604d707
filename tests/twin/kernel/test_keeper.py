"""Namespaces of the real kernel, made by a real child process."""

import asyncio
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import hwd
import hwd_agents
import hwd_drivers
from hwd.twin.kernel import SWITCH, Keeper, Privilege
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.sockets import NamespaceSockets
from hwd_agents.sources.link_source import LinkReading
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError

pytestmark = pytest.mark.kernel

SO_NETNS_COOKIE = 71
RACK = Path(__file__).parent / "rack_process.py"
WITHIN_S = 20.0


def network_of(opened: socket.socket) -> bytes:
    with opened:
        return opened.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)


def test_each_host_and_the_switch_have_a_network_of_their_own_in_which_alone_their_settings_count(
    keeper: Keeper,
) -> None:
    networks = {network_of(keeper.socket(ns, socket.AF_INET, socket.SOCK_DGRAM)) for ns in (SWITCH, "h0", "h1", "h0")}
    ours = network_of(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    assert (len(networks), len(networks | {ours})) == (3, 4)
    assert keeper.privilege is (Privilege.ROOT if os.geteuid() == 0 else Privilege.USER)
    before = Path("/proc/sys/net/ipv4/ip_default_ttl").read_text()
    keeper.setting("h0", "net/ipv4/ip_default_ttl", "33")
    with keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as theirs:
        assert theirs.getsockopt(socket.SOL_IP, socket.IP_TTL) == 33
    with keeper.socket("h1", socket.AF_INET, socket.SOCK_DGRAM) as others:
        assert others.getsockopt(socket.SOL_IP, socket.IP_TTL) != 33
    assert Path("/proc/sys/net/ipv4/ip_default_ttl").read_text() == before


async def test_socket_of_a_keeper_that_a_clean_up_has_removed_comes_again(keeper: Keeper) -> None:
    before = network_of(keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM))
    shutil.rmtree(keeper.path.parent)
    keeper.path.parent.mkdir(mode=0o700)
    async with asyncio.timeout(WITHIN_S):
        while not keeper.path.is_socket():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    assert network_of(keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM)) == before


def test_what_a_network_does_not_have_is_refused_by_name_and_the_keeper_goes_on(keeper: Keeper) -> None:
    with pytest.raises(
        OSError, match=r"h7: cannot open a socket .* no namespace h7 here, only switch, h0, h1"
    ) as caught:
        keeper.socket("h7", socket.AF_INET, socket.SOCK_DGRAM)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(OSError, match="cannot open a socket") as caught:
        keeper.socket("h0", 45, socket.SOCK_STREAM)
    assert caught.value.errno == errno.EAFNOSUPPORT
    for name in ("kernel/hostname", "net/../kernel/hostname", "/etc/passwd"):
        with pytest.raises(PermissionError, match="is no setting of a network"):
            keeper.setting("h0", name, "x")
    for name in ("../status", "netfilter/nf_log", "", ".."):
        with pytest.raises(PermissionError, match="is no file of /proc/net"):
            keeper.sockets("h0").open_file(name)
    with pytest.raises(FileNotFoundError, match="h0: cannot open /proc/net/nosuch: No such file"):
        keeper.sockets("h0").open_file("nosuch")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(keeper.path))
        for garbage in (b"\xff\x00", b"[]", b"{}", b'{"verb": "socket", "ns": "h0", "family": "x"}'):
            connection.send(garbage)
            assert json.loads(connection.recv(4096))["errno"] == errno.EBADMSG
    keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM).close()


async def test_death_of_the_keeper_is_reported_and_later_requests_fail(keeper: Keeper) -> None:
    os.kill(keeper.pid, signal.SIGKILL)
    async with asyncio.timeout(WITHIN_S):
        assert await keeper.died() == -signal.SIGKILL
    with pytest.raises(ConnectionRefusedError, match=r"the keeper at .* is not there"):
        keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM)


async def test_stop_ends_the_keeper_and_none_is_started_in_a_place_or_with_a_host_that_cannot_be(
    keeper: Keeper, tmp_path: Path
) -> None:
    await keeper.stop()
    assert await keeper.died() == 0
    assert not keeper.path.exists()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    for hosts, folder, why in (
        (["h0"], "open", "others can enter it"),
        (["h0"], "x" * 100, r"over the 107 of Linux"),
        (["switch"], "run", "switch is taken"),
    ):
        with pytest.raises(ConfigError, match=why):
            await Keeper().start(hosts, tmp_path / folder)


async def test_rack_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """An observer of h0, which keeps that network alive, sees its interface go with the network of the switch."""
    with start_rack(tmp_path / "run") as rack:
        assert rack.stdout is not None
        said = json.loads(rack.stdout.readline())
        gone: asyncio.Future[LinkReading] = asyncio.get_running_loop().create_future()
        links = RtnetlinkLinks(NamespaceSockets(said["path"], "h0"), SystemClock())
        await links.open(lambda reading: None if reading.present or gone.done() else gone.set_result(reading))
        keeper_end = os.pidfd_open(said["keeper"])
        os.kill(rack.pid, signal.SIGKILL)
        async with asyncio.timeout(WITHIN_S):
            assert (await gone).interface == "eth0"
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(keeper_end, ended.set)
            await ended.wait()
        asyncio.get_running_loop().remove_reader(keeper_end)
        os.close(keeper_end)
        await links.close()


def test_machine_without_namespaces_is_told_with_the_way_out(tmp_path: Path) -> None:
    """Inside a user namespace whose own limit of network namespaces is none, which the kernel enforces."""
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]
    done = subprocess.run(
        [*command, sys.executable, RACK, tmp_path / "run", "check"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["unavailable"]
    assert "No space left on device" in said
    assert "use process hosts" in said


def test_ordinary_user_has_a_rack_of_real_links(ordinary: Sequence[str], ordinary_folder: Path) -> None:
    done = subprocess.run(
        [*ordinary, RACK, ordinary_folder / "run", "check"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    if "unavailable" in said:
        pytest.skip(said["unavailable"])
    assert said == {"privilege": "user", "changes": 2, "carrier": True, "arrived": ["h1"]}


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """Not tmp_path, which is closed to the ordinary user."""
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o777)
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def ordinary() -> Sequence[str]:
    """How to run a Python of ours as an ordinary user; root becomes `nobody`."""
    if os.geteuid() != 0:
        return [sys.executable]
    roots = [str(Path(package.__file__ or "").parents[1]) for package in (hwd, hwd_agents, hwd_drivers)]
    roots += [path for path in sys.path if path.endswith("site-packages")]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    become = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    environment = ["env", "-C", "/", f"PYTHONPATH={':'.join(roots)}", "PYTHONDONTWRITEBYTECODE=1"]
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        command = [*become, *environment, python]
        can = [*command, "-c", f"import hwd.twin.kernel; open({str(RACK)!r}).close()"]
        if subprocess.run(can, capture_output=True).returncode == 0:
            return command
    pytest.skip(
        f"user nobody can run no Python {version} with this tree (closed folders above it or above the interpreter)"
    )


def start_rack(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, RACK, folder, "stay"], stdout=subprocess.PIPE, text=True)
