"""TlsDialer: TLS over any connection: a dialer around a dialer, so that test dialers work under it too.

client = await HttpClient.open(TlsDialer(dialer, context), "10.0.0.5:443", ...)
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.tls_context import client_context
from hwd_drivers.core.user_file import read_user_file
from hwd_drivers.transports.dial import Dialer, Listener
from hwd_drivers.transports.masked_dialer import mask_of

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)

READ_BYTES: Final = 1 << 16
CERTIFICATES_BYTES_MAX: Final = 4_000_000


class TlsOptions(BaseModel):
    """TLS options of a device in a testbed; the options of drivers that support TLS inherit it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tls: bool = Field(default=False, description="speak TLS (HTTPS)")
    tls_ca_file: str | None = Field(
        default=None,
        description="PEM file of the authority of the device's certificate, or that certificate itself",
    )
    tls_verify: bool = Field(
        default=True, description="false: accept any certificate. Anybody on the network can then pose as the device"
    )

    def around(self, dialer: Dialer, address: str) -> Dialer:
        """The dialer to use. Raises ConfigError where the file of certificates cannot be read."""
        if not self.tls:
            return dialer
        what = f"tls_ca_file {self.tls_ca_file}"
        if self.tls_ca_file is not None:  # OpenSSL opens it itself, and would wait for the writer of a FIFO
            read_user_file(self.tls_ca_file, most_bytes=CERTIFICATES_BYTES_MAX, what=what)
        try:
            context = client_context(self.tls_ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{what}: cannot be read: {reason_of(error)}") from error
        if not self.tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        host = address.rpartition(":")[0].strip("[]")
        return TlsDialer(dialer, context, server_name=host or address)


def serving(dialer: Dialer, pem: str | None) -> Dialer:
    """The dialer on which a twin listens: with TLS where `pem` names a file with its key and certificate.

    Raises ConfigError where that file cannot be read.
    """
    if pem is None:
        return dialer
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    read_user_file(pem, most_bytes=CERTIFICATES_BYTES_MAX)
    try:
        context.load_cert_chain(pem)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{pem}: cannot be read as a key and its certificate: {reason_of(error)}") from error
    return TlsDialer(dialer, context)


class TlsDialer:
    """Connects and listens by `inner`, with TLS over it; `context` is for clients or for servers.

    Failures are OSErrors.
    """

    def __init__(self, inner: Dialer, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        self.mask = mask_of(inner)
        self._inner = inner
        self._context = context
        self._server_name = server_name

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        """Connect; `connection_made` of the protocol is called after the handshake."""
        secured = asyncio.get_running_loop().create_future()

        def make() -> _Tls[ProtoT]:
            return _Tls(factory(), self._context, server_side=False, server_name=self._server_name, secured=secured)

        raw, tls = await self._inner.connect(make, address)
        try:
            await secured
        except BaseException:
            raw.abort()
            raise
        return tls.transport, tls.inner

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        shaking: set[_Tls[asyncio.Protocol]] = set()

        def make() -> _Tls[asyncio.Protocol]:
            return _Tls(factory(), self._context, server_side=True, shaking=shaking)

        return _TlsListener(await self._inner.listen(make, address), shaking)


class _TlsListener:
    """Cuts connections that are still in their handshake when it closes: they have no protocol yet that could."""

    def __init__(self, inner: Listener, shaking: "set[_Tls[asyncio.Protocol]]") -> None:
        self._inner = inner
        self._shaking = shaking

    @property
    def address(self) -> str:
        return self._inner.address

    async def close(self) -> None:
        await self._inner.close()
        self.cut()

    def cut(self) -> None:
        for tls in [*self._shaking]:
            tls.abort()


class _Tls(asyncio.Protocol, Generic[ProtoT]):
    """Sits between a transport and a protocol."""

    def __init__(
        self,
        inner: ProtoT,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_name: str | None = None,
        secured: "asyncio.Future[None] | None" = None,
        shaking: "set[_Tls[ProtoT]] | None" = None,
    ) -> None:
        self.inner = inner
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.coder = context.wrap_bio(self._coming, self._going, server_side=server_side, server_hostname=server_name)
        self.transport = _TlsTransport(self)
        self.raw: asyncio.Transport | None = None
        self._secured = secured
        self._shaking = set[_Tls[ProtoT]]() if shaking is None else shaking
        self._up = False
        self._broken: Exception | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.raw = transport
        self._shaking.add(self)
        self._shake_hands()

    @override
    def data_received(self, data: bytes) -> None:
        self._coming.write(data)
        if not self._up:
            self._shake_hands()
        if self._up:
            self._read()

    @override
    def eof_received(self) -> bool | None:
        """The end of the bytes; a TLS close_notify of the peer was handled before."""
        return self.inner.eof_received() if self._up else None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        cause = self._broken or exc
        self._shaking.discard(self)
        if self._up:
            self.inner.connection_lost(cause)
        elif self._secured is not None and not self._secured.done():
            self._secured.set_exception(
                cause or ConnectionResetError("TLS: the other side closed during the handshake")
            )

    @override
    def pause_writing(self) -> None:
        if self._up:
            self.inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        if self._up:
            self.inner.resume_writing()

    def abort(self) -> None:
        if self.raw is not None:
            self.raw.abort()

    def flush(self) -> None:
        if self.raw is not None and (data := self._going.read()):
            self.raw.write(data)

    def _shake_hands(self) -> None:
        try:
            self.coder.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            return
        except ssl.SSLError as error:
            self._break(error)
            return
        self.flush()
        self._up = True
        self._shaking.discard(self)
        self.inner.connection_made(self.transport)
        if self._secured is not None and not self._secured.done():
            self._secured.set_result(None)

    def _read(self) -> None:
        while self.raw is not None and not self.raw.is_closing():
            try:
                data = self.coder.read(READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                self._break(error)
                return
            if not data:  # close_notify of the other side
                if not self.inner.eof_received():
                    self.transport.close()
                break
            self.inner.data_received(data)
        self.flush()  # messages of TLS itself, such as new keys

    def _break(self, error: ssl.SSLError) -> None:
        words = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason or error
        self._broken = OSError(error.errno, f"TLS: {str(words).rstrip('.')}. Check tls, tls_ca_file and tls_verify")
        self.flush()
        self.abort()


class _TlsTransport(asyncio.Transport):
    """The transport that the upper protocol writes to."""

    def __init__(self, tls: "_Tls[Any]") -> None:
        super().__init__()
        self._tls = tls

    @property
    def _raw(self) -> asyncio.Transport:
        assert self._tls.raw is not None
        return self._tls.raw

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    @override
    def is_closing(self) -> bool:
        return self._raw.is_closing()

    @override
    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if data and not self._raw.is_closing():
            self._tls.coder.write(data)
            self._tls.flush()

    @override
    def close(self) -> None:
        """Send close_notify, then close; close_notify of the other side is not awaited."""
        if not self._raw.is_closing():
            try:
                self._tls.coder.unwrap()
            except ssl.SSLError:
                pass  # close_notify of the other side is missing, or the handshake is not over
            self._tls.flush()
            self._raw.close()

    @override
    def abort(self) -> None:
        self._raw.abort()

    @override
    def pause_reading(self) -> None:
        self._raw.pause_reading()

    @override
    def resume_reading(self) -> None:
        self._raw.resume_reading()

    @override
    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()
