"""TLS over memory and real sockets: whole, bytewise, wrong certificates, lost connections, and Python's TLS as peer."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typing_extensions import override

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, LinkError, ProtocolError
from hwd_drivers.devices.registry import OpenContext, find
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import Cut, MemoryDialer, MemoryNet
from hwd_drivers.transports.tls import TlsDialer, TlsOptions, serving

from ..parts import Connected, Recorder, context, twin


class Echo(Connected):
    """Echoes received bytes; `bye` ends it."""

    @override
    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        if data.endswith(b"bye"):
            self.transport.close()


def server_of(pem: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("chunk_bytes", [None, 1, 7])
async def test_bytes_arrive_however_they_are_split(pem: Path, chunk_bytes: int | None) -> None:
    net = MemoryDialer(MemoryNet(latency_s=0.001, chunk_bytes=chunk_bytes))
    await TlsDialer(net, server_of(pem)).listen(Echo, "mem:ocs1")
    options = TlsOptions(tls=True, tls_ca_file=str(pem), tls_verify=False)
    transport, caller = await options.around(net, "mem:ocs1").connect(Recorder, "mem:ocs1")
    text = bytes(range(256)) * 300
    transport.write(text)
    await asyncio.sleep(10)
    assert caller.received == text
    transport.write(b"bye")
    assert await caller.lost() is None
    assert caller.received == text + b"bye"


async def test_the_certificate_of_the_device_is_held_against_its_address(pem: Path) -> None:
    listener = await TlsDialer(TcpDialer(), server_of(pem)).listen(Echo, "127.0.0.1:0")
    address = listener.address
    trusting = TlsOptions(tls=True, tls_ca_file=str(pem)).around(TcpDialer(), address)
    transport, caller = await trusting.connect(Recorder, address)
    transport.write(b"hello bye")
    await caller.lost()
    assert caller.received == b"hello bye"
    with pytest.raises(OSError, match=r"TLS: self-signed certificate\. Check .*tls_ca_file"):
        await TlsOptions(tls=True).around(TcpDialer(), address).connect(Recorder, address)
    context = ssl.create_default_context(cafile=str(pem))
    with pytest.raises(OSError, match="not valid for 'other'"):
        await TlsDialer(TcpDialer(), context, server_name="other").connect(Recorder, address)
    await listener.close()


def of_a_lab(folder: Path) -> tuple[Path, Path]:
    """The certificate of a laboratory's authority, and behind its key one that it has signed for 127.0.0.1: without key
    identifiers and usages, as devices have them.
    """
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    lab, device = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("lab", "ocs1"))
    lab_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    made = x509.CertificateBuilder(issuer_name=lab, not_valid_before=begin, not_valid_after=begin + timedelta(36500))
    authority = (
        made.subject_name(lab)
        .public_key(lab_key.public_key())
        .serial_number(1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(lab_key, hashes.SHA256())
    )
    signed = (
        made.subject_name(device)
        .public_key(key.public_key())
        .serial_number(2)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(lab_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (trusted := folder / "lab.pem").write_bytes(authority.public_bytes(pem))
    (own := folder / "device.pem").write_bytes(secret + signed.public_bytes(pem))
    return trusted, own


async def test_a_certificate_of_a_laboratory_is_trusted_by_its_authority_or_by_itself(tmp_path: Path) -> None:
    trusted, own = of_a_lab(tmp_path)
    listener = await TlsDialer(TcpDialer(), server_of(own)).listen(Echo, "127.0.0.1:0")
    address = listener.address
    for file in (trusted, own):
        dialer = TlsOptions(tls=True, tls_ca_file=str(file)).around(TcpDialer(), address)
        transport, caller = await dialer.connect(Recorder, address)
        transport.write(b"bye")
        await caller.lost()
        assert caller.received == b"bye"
    with pytest.raises(OSError, match=r"TLS: unable to get local issuer certificate"):
        await TlsOptions(tls=True).around(TcpDialer(), address).connect(Recorder, address)
    await listener.close()


async def test_unfinished_handshakes_are_cut_when_the_listener_closes(pem: Path) -> None:
    listener = await TlsDialer(TcpDialer(), server_of(pem)).listen(Echo, "127.0.0.1:0")
    address = listener.address
    _, silent = await TcpDialer().connect(Recorder, address)
    trusting = TlsOptions(tls=True, tls_ca_file=str(pem)).around(TcpDialer(), address)
    transport, secured = await trusting.connect(Recorder, address)
    transport.write(b"hello")
    later, told = await trusting.connect(Recorder, address)
    later.write(b"bye")
    await told.lost()  # by now the first one has arrived too
    await listener.close()
    await asyncio.wait_for(silent.lost(), 2)
    transport.write(b" bye")
    await secured.lost()
    assert secured.received == b"hello bye", "those whose handshake is over stay"


async def test_pythons_own_tls_understands_it_on_both_sides(pem: Path) -> None:
    context = ssl.create_default_context(cafile=str(pem))
    listener = await TlsDialer(TcpDialer(), server_of(pem)).listen(Echo, "127.0.0.1:0")
    reader, writer = await asyncio.open_connection(*listener.address.split(":"), ssl=context)
    writer.write(b"x" * 100_000 + b"bye")
    assert await asyncio.wait_for(reader.read(-1), 5) == b"x" * 100_000 + b"bye"
    writer.close()
    await listener.close()
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, ssl=server_of(pem))
    address = "{}:{}".format(*server.sockets[0].getsockname())
    transport, caller = await TlsDialer(TcpDialer(), context, server_name="127.0.0.1").connect(Recorder, address)
    transport.write(b"hello bye")
    await asyncio.wait_for(caller.lost(), 5)
    assert caller.received == b"hello bye"
    server.close()


class Leaver(Connected):
    """A server of Python's own TLS that sends close_notify after the handshake and keeps the connection open."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.coming, self.going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.coder = context.wrap_bio(self.coming, self.going, server_side=True)

    @override
    def data_received(self, data: bytes) -> None:
        self.coming.write(data)
        try:
            self.coder.do_handshake()
            self.coder.write(b"all")
            self.coder.unwrap()
        except ssl.SSLWantReadError:
            pass  # the next bytes of the client, or its goodbye
        self.transport.write(self.going.read())


@pytest.mark.usefixtures("virtual_time")
async def test_a_goodbye_is_heard_on_an_open_connection_and_other_bytes_are_an_os_error(pem: Path) -> None:
    net = MemoryDialer(MemoryNet())
    await net.listen(lambda: Leaver(server_of(pem)), "mem:ocs1")
    tls = TlsOptions(tls=True, tls_verify=False).around(net, "mem:ocs1")
    _, caller = await tls.connect(Recorder, "mem:ocs1")
    assert await asyncio.wait_for(caller.lost(), 5) is None
    assert caller.received == b"all"
    await net.listen(Echo, "mem:plain")
    options = TlsOptions(tls=True)
    with pytest.raises(OSError, match="TLS: "):
        await options.around(net, "mem:plain").connect(Recorder, "mem:plain")


@pytest.mark.usefixtures("virtual_time")
async def test_a_reset_reaches_the_protocol_and_the_one_who_connects(pem: Path) -> None:
    net = MemoryNet(latency_s=0.01)
    dialer = MemoryDialer(net)
    await TlsDialer(dialer, server_of(pem)).listen(Echo, "mem:ocs1")
    tls = TlsOptions(tls=True, tls_verify=False).around(dialer, "mem:ocs1")
    _, caller = await tls.connect(Recorder, "mem:ocs1")
    connecting = asyncio.create_task(tls.connect(Recorder, "mem:ocs1"))
    await asyncio.sleep(0.03)
    net.cut("mem:ocs1", Cut.RESET)
    assert isinstance(await caller.lost(), ConnectionResetError)
    with pytest.raises(ConnectionResetError):
        await connecting


def test_a_file_that_is_not_there_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"tls_ca_file /nowhere\.pem"):
        TlsOptions(tls=True, tls_ca_file="/nowhere.pem").around(TcpDialer(), "127.0.0.1:443")
    with pytest.raises(ConfigError, match=r"/nowhere\.pem: cannot be read"):
        serving(TcpDialer(), "/nowhere.pem")
    dialer = TcpDialer()
    assert TlsOptions().around(dialer, "127.0.0.1:80") is dialer
    assert serving(dialer, None) is dialer


async def test_a_driver_and_a_twin_speak_over_it(pem: Path) -> None:
    def session(**options: object) -> OpenContext:
        chosen = spec.options.model_validate(options)
        return context("calient-rest", "calient-s160", "8", TcpDialer(), SystemClock(), address=address, options=chosen)

    spec, address = find("calient-rest"), "127.0.0.1:0"
    unit = twin(session(), "calient-rest", address=address, rest_tls_pem=str(pem))
    address = await unit.start()
    device = await spec.open(session(tls=True, tls_ca_file=str(pem)))
    assert (await device.identify(deadline_s=asyncio.get_running_loop().time() + 5)).vendor == "Calient"
    await device.close()
    with pytest.raises(LinkError, match=r"ocs1: cannot connect to .*TLS: self-signed certificate"):
        await spec.open(session(tls=True))
    with pytest.raises((LinkError, ProtocolError)):
        await spec.open(session())
    await unit.close()
