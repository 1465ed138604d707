"""SSH sessions and the SSH server of twins: memory, TCP, impaired connections, OpenSSH's client; nothing stays open."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest
from typing_extensions import override

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError, LoginError, ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.transports.dial import Dialer, TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import RoughDialer, Way
from hwd_drivers.transports.ssh.channel import ChannelTransport
from hwd_drivers.transports.ssh.keys import HostTrust, fingerprint, is_local, public_line, twin_host_key
from hwd_drivers.transports.ssh.server import SshAcceptor
from hwd_drivers.transports.ssh.session import CHANNELS, OUTPUT_BYTES, SshLogin, SshSession

from ...parts import Recorder, openssh

CHILDREN = "asyncio-waitpid"
"""Threads of asyncio itself, which wait for the end of a child and may be a moment late."""
HOST_KEY = twin_host_key(Draws(1).stream("host"))
OTHER_KEY = twin_host_key(Draws(2).stream("host"))


class Shell(asyncio.Protocol):
    """A device with a few commands, and an echo in its subsystem and its shell."""

    def __init__(self, peers: "list[Shell]", arrived: "asyncio.Queue[Shell]") -> None:
        self._peers = peers
        self._arrived = arrived
        self.extra: Callable[[str], Any] = lambda _: None
        self.transport: ChannelTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, ChannelTransport)
        self._peers.append(self)
        self._arrived.put_nowait(self)
        self.transport = transport
        self.extra = transport.get_extra_info
        match transport.get_extra_info("command"):
            case "fail":
                transport.write(b"so far\n")
                transport.write_errors(b"Error: no such port\n")
                transport.finish(2)
            case "much":
                transport.write(b"x" * 3_000_000)
                transport.finish(0)
            case "too much":
                transport.write(b"x" * (OUTPUT_BYTES + 1))
                transport.finish(0)
            case "no status":
                transport.close()
            case "cut":
                transport.abort()
            case str() as command if command.startswith("say "):
                transport.write(command.removeprefix("say ").encode())
                transport.finish(0)

    @override
    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._peers.remove(self)


class Device:
    """An SSH server with its address and how to open a session."""

    def __init__(self, dialer: Dialer, address: str, peers: list[Shell], arrived: "asyncio.Queue[Shell]") -> None:
        self.dialer = dialer
        self.address = address
        self.peers = peers
        self.arrived = arrived

    async def has(self, count: int) -> None:
        """Wait until so many more commands run."""
        async with asyncio.timeout(5):
            for _ in range(count):
                await self.arrived.get()

    async def open(self, *, within_s: float = 10.0, **login: Any) -> SshSession:
        asked = SshLogin(**({"user": "admin", "password": "root"} | login))
        deadline_s = asyncio.get_running_loop().time() + within_s
        return await SshSession.open(
            self.dialer, self.address, name="ocs1", login=asked, clock=SystemClock(), deadline_s=deadline_s
        )


@asynccontextmanager
async def device(
    dialer: Dialer | None = None, address: str = "mem:", *, connections_max: int | None = None
) -> AsyncIterator[Device]:
    peers: list[Shell] = []
    arrived: asyncio.Queue[Shell] = asyncio.Queue()
    dialer = dialer or MemoryDialer(MemoryNet())
    acceptor = SshAcceptor(
        dialer,
        name="twin",
        host_key=HOST_KEY,
        check_login=lambda user, password: (user, password) in (("admin", "root"), ("keyed", None)),
        subsystems=("echo",),
        commands=True,
        connections_max=connections_max,
    )
    before = set(threading.enumerate())
    listener = await acceptor.listen(lambda: Shell(peers, arrived), address)
    try:
        yield Device(dialer, listener.address, peers, arrived)
    finally:
        await listener.close()
    assert not peers, "sessions outlive their listener"
    new = set(threading.enumerate()) - before
    left = [thread.name for thread in new if thread.is_alive() and not thread.name.startswith(CHILDREN)]
    assert not left, f"threads are left: {left}"


def soon(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.fixture
async def there() -> AsyncIterator[Device]:
    async with device() as there:
        yield there


@pytest.fixture
async def session(there: Device) -> AsyncIterator[SshSession]:
    session = await there.open()
    yield session
    await session.close()


@pytest.mark.parametrize("way", [Way.WHOLE, Way.BYTEWISE, Way.SLOW])
async def test_a_command_is_run_and_its_output_and_status_come_back(way: Way) -> None:
    async with device(RoughDialer(MemoryDialer(MemoryNet()), way, draws=Draws(1))) as there:
        session = await there.open()
        sent: list[int] = []
        output = await session.run("say hello", deadline_s=soon(), on_sent=sent.append)
        assert (output.status, output.out, output.err) == (0, b"hello", b"")
        assert sent == [output.sent_ns]
        assert output.sent_ns < output.received_ns
        failed = await session.run("fail", deadline_s=soon())
        assert (failed.status, failed.out, failed.err) == (2, b"so far\n", b"Error: no such port\n")
        await session.close()


async def test_it_works_over_tcp() -> None:
    async with device(TcpDialer(), "127.0.0.1:0") as there:
        session = await there.open()
        assert (await session.run("say hello", deadline_s=soon())).out == b"hello"
        await session.close()


async def test_each_command_gets_its_own_output_whole_or_is_refused(session: SshSession) -> None:
    outputs = await asyncio.gather(*(session.run(f"say {n}", deadline_s=soon()) for n in range(3 * CHANNELS)))
    assert [output.out for output in outputs] == [str(n).encode() for n in range(3 * CHANNELS)]
    with pytest.raises(ProtocolError, match="no status: it ended without an exit status"):
        await session.run("no status", deadline_s=soon())
    output = await session.run("much", deadline_s=soon(20))
    assert output.out == b"x" * 3_000_000
    with pytest.raises(ProtocolError, match=rf"too much: over {OUTPUT_BYTES} bytes"):
        await session.run("too much", deadline_s=soon(20))
    assert (await session.run("say on", deadline_s=soon())).out == b"on"


async def test_a_subsystem_is_a_connection_of_its_own(there: Device, session: SshSession) -> None:
    transport, echoed = await session.subsystem(Recorder, "echo")
    transport.write(b"abc")
    await asyncio.wait_for(echoed.until_received(3), 5)
    assert echoed.received == b"abc"
    assert (there.peers[0].extra("subsystem"), there.peers[0].extra("user")) == ("echo", "admin")
    transport.close()
    await asyncio.wait_for(echoed.lost(), 5)
    with pytest.raises(LinkError, match="sftp"):
        await session.subsystem(Recorder, "sftp")


async def test_nothing_is_sent_after_the_deadline_and_a_command_without_an_end_leaves_the_session(
    there: Device, session: SshSession
) -> None:
    with pytest.raises(DeadlineError, match="not sent"):
        await session.run("say late", deadline_s=asyncio.get_running_loop().time() - 1)
    assert there.peers == []
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    with pytest.raises(DeadlineError, match=r"ocs1: hang: no complete answer within 0\.[1-3]\d* s"):
        await session.run("hang", deadline_s=started_s + 0.3)
    assert loop.time() - started_s < 5
    assert (await session.run("say on", deadline_s=soon())).out == b"on"


async def test_a_cancelled_command_keeps_the_session_and_closes_its_channel(there: Device, session: SshSession) -> None:
    for _ in range(3 * CHANNELS):
        given_up = asyncio.create_task(session.run("hang", deadline_s=soon()))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait((given_up,))
        assert given_up.cancelled()
    assert (await session.run("say on", deadline_s=soon())).out == b"on"
    async with asyncio.timeout(5):
        while there.peers:
            await session.run("say on", deadline_s=soon())


async def test_a_cut_connection_fails_every_waiter_with_the_cause(there: Device, session: SshSession) -> None:
    waiting = [asyncio.create_task(session.run("hang", deadline_s=soon())) for _ in range(3)]
    await there.has(3)
    with pytest.raises(LinkError):
        await session.run("cut", deadline_s=soon())
    for each in waiting:
        with pytest.raises(LinkError, match="ocs1: SSH connection lost") as raised:
            await each
        assert not isinstance(raised.value, DeadlineError)
    assert isinstance(await asyncio.wait_for(session.lost(), 5), LinkError)


async def test_close_is_repeatable_and_ends_waiters(there: Device, session: SshSession) -> None:
    waiting = asyncio.create_task(session.run("hang", deadline_s=soon()))
    await there.has(1)
    await asyncio.gather(session.close(), session.close())
    await session.close()
    with pytest.raises(LinkError):
        await waiting
    with pytest.raises(LinkError, match="closed"):
        await session.run("say on", deadline_s=soon())
    assert isinstance(await session.lost(), LinkError)


async def test_a_key_file_logs_in_without_a_password_and_a_wrong_password_is_a_login_error(tmp_path: Path) -> None:
    key_file = tmp_path / "id"
    key = paramiko.RSAKey.generate(2048)
    key.write_private_key_file(str(key_file))
    async with device() as there:
        session = await there.open(user="keyed", password=None, key_file=key_file)
        assert (await session.run("say on", deadline_s=soon())).out == b"on"
        await session.close()
        with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
            await there.open(user="keyed", key_file=tmp_path / "none")
        key_file.write_text("garbage")
        with pytest.raises(ConfigError, match="cannot be read as a private key"):
            await there.open(user="keyed", key_file=key_file)
        with pytest.raises(LoginError, match=r"ocs1: .* refuses the login of admin: .*[a-z]\. Check user") as raised:
            await there.open(password="toor")
        assert raised.value.command == "SSH login"


async def test_a_refused_connection_and_a_peer_without_ssh_are_errors_and_a_silent_one_a_deadline_error() -> None:
    with pytest.raises(LinkError, match="cannot connect to mem:nobody"):
        await Device(MemoryDialer(MemoryNet()), "mem:nobody", [], asyncio.Queue()).open()
    with pytest.raises(ConfigError, match="not an address"):
        await Device(TcpDialer(), "nonsense", [], asyncio.Queue()).open()

    class Babble(asyncio.Protocol):
        @override
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"220 mail\r\n" * 500)

    dialer = MemoryDialer(MemoryNet())
    talker = await dialer.listen(Babble, "mem:talker")
    silent = await dialer.listen(asyncio.Protocol, "mem:silent")
    before = set(threading.enumerate())
    with pytest.raises(LinkError):
        await Device(dialer, "mem:talker", [], asyncio.Queue()).open()
    with pytest.raises(DeadlineError, match=r"no SSH login at mem:silent within 0\.[12]\d* s"):
        await Device(dialer, "mem:silent", [], asyncio.Queue()).open(within_s=0.2)
    assert set(threading.enumerate()) == before
    await talker.close()
    await silent.close()


async def test_more_connections_than_allowed_are_closed_at_once() -> None:
    async with device(connections_max=1) as there:
        first = await there.open()
        with pytest.raises(LinkError):
            await there.open()
        await first.close()
        async with asyncio.timeout(5):
            while True:
                try:
                    again = await there.open()
                    break
                except LinkError:
                    continue
        await again.close()


@pytest.mark.parametrize("way", [Way.LOSSY, Way.DYING])
async def test_on_a_bad_way_an_output_is_right_or_an_error(way: Way) -> None:
    right = 0
    async with device(RoughDialer(MemoryDialer(MemoryNet()), way, draws=Draws(5))) as there:
        for n in range(8):
            session = None
            try:
                session = await there.open(within_s=0.5)
                for _ in range(3):
                    assert (await session.run(f"say {n}", deadline_s=soon(0.5))).out == str(n).encode()
                    right += 1
            except (LinkError, ProtocolError):
                continue
            finally:
                if session is not None:
                    await session.close()
    assert right < 24


async def test_garbage_from_a_client_ends_its_connection_only() -> None:
    async with device() as there:
        good = await there.open()
        for garbage in (b"\x00" * 9000, b"SSH-2.0-x\r\n" + bytes(range(256)) * 40, b"GET / HTTP/1.1\r\n\r\n"):
            transport, echoed = await there.dialer.connect(Recorder, there.address)
            transport.write(garbage)
            transport.write_eof()
            await asyncio.wait_for(echoed.lost(), 10)
        assert (await good.run("say on", deadline_s=soon())).out == b"on"
        await good.close()


class TestHostKeys:
    async def test_a_host_on_another_machine_must_be_trusted(self) -> None:
        with pytest.raises(
            ConfigError, match=r"10\.0\.0\.5:22 shows the host key ssh-ed25519 SHA256:\S+, which is not trusted"
        ):
            HostTrust().check("ocs1", "10.0.0.5:22", HOST_KEY)
        HostTrust().check("ocs1", "127.0.0.1:2222", HOST_KEY)

    @pytest.mark.parametrize("pinned", [fingerprint(HOST_KEY), public_line(HOST_KEY)])
    async def test_a_pinned_key_is_the_only_one(self, pinned: str) -> None:
        async with device() as there:
            session = await there.open(trust=HostTrust(host_key=pinned))
            await session.close()
        with pytest.raises(ConfigError, match="not the one of option host_key"):
            HostTrust(host_key=pinned).check("ocs1", "mem:x", OTHER_KEY)

    def test_a_known_hosts_file_is_strict(self, tmp_path: Path) -> None:
        file = tmp_path / "known_hosts"
        file.write_text(f"[10.0.0.5]:2222 {public_line(HOST_KEY)}\n10.0.0.6 {public_line(HOST_KEY)}\n")
        trust = HostTrust(known_hosts=file)
        trust.check("ocs1", "10.0.0.5:2222", HOST_KEY)
        trust.check("ocs1", "10.0.0.6:22", HOST_KEY)
        assert trust.key_types("10.0.0.6:22") == ("ssh-ed25519",)
        with pytest.raises(ConfigError, match=r"has another key for \[10\.0\.0\.5\]:2222"):
            trust.check("ocs1", "10.0.0.5:2222", OTHER_KEY)
        with pytest.raises(ConfigError, match=r"does not know 10\.0\.0\.7"):
            trust.check("ocs1", "10.0.0.7:22", HOST_KEY)
        with pytest.raises(ConfigError, match="cannot be read"):
            HostTrust(known_hosts=tmp_path / "none").check("ocs1", "10.0.0.7:22", HOST_KEY)

    def test_trusting_the_first_key_remembers_it(self, tmp_path: Path) -> None:
        trust = HostTrust(known_hosts=tmp_path / "known_hosts", trust_first=True)
        trust.check("ocs1", "10.0.0.5:22", HOST_KEY)
        trust.check("ocs1", "10.0.0.5:22", HOST_KEY)
        with pytest.raises(ConfigError, match="another key for"):
            trust.check("ocs1", "10.0.0.5:22", OTHER_KEY)
        assert (tmp_path / "known_hosts").read_text() == f"10.0.0.5 {public_line(HOST_KEY)}\n"

    def test_keys_of_twins_follow_their_draws_and_local_addresses_are_recognized(self) -> None:
        assert public_line(twin_host_key(Draws(1).stream("host"))) == public_line(HOST_KEY)
        assert public_line(OTHER_KEY) != public_line(HOST_KEY)
        assert all(map(is_local, ("127.0.0.1:22", "[::1]:22", "unix:/run/x", "mem:x", "localhost:22")))
        assert not any(map(is_local, ("10.0.0.1:22", "[fe80::1]:22", "switch:22", "localhost.evil.example:22")))


@pytest.mark.skipif(shutil.which("ssh") is None, reason="openssh-client is not installed")
async def test_openssh_runs_commands_and_reports_a_wrong_password(tmp_path: Path) -> None:
    """OpenSSH's own client is the judge."""
    async with device(TcpDialer(), "127.0.0.1:0") as there:

        async def ssh(*words: str, password: str = "root") -> tuple[int | None, str, str]:
            return await openssh(there.address, public_line(HOST_KEY), tmp_path, *words, password=password)

        assert await ssh("say hello") == (0, "hello", "")
        assert await ssh("fail") == (2, "so far\n", "Error: no such port\n")
        assert await ssh("-oPreferredAuthentications=password", "say on") == (0, "on", "")
        status, _, err = await ssh("say hello", password="toor")
        assert (status, "Permission denied" in err) == (255, True)
