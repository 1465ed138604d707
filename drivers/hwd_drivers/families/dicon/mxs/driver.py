"""The driver of DiCon MXS-9100 switches: a SCPI subset over a serial line or a TCP serial server."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeVar

from pydantic import Field

from hwd_drivers.codecs.scpi import NO_ERROR
from hwd_drivers.core.errors import BugError, ConfigError, DeadlineError, DeviceError, FailedError, ProtocolError
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Exchange,
    Identity,
    PortSide,
    Side,
)
from hwd_drivers.devices.registry import OpenContext, Options
from hwd_drivers.devices.scpi_client import ScpiClient
from hwd_drivers.families.dicon.mxs import protocol
from hwd_drivers.families.dicon.mxs.protocol import OPEN, Status

POLL_S: Final = 0.01
"""Interval of status queries while mirrors move."""
UNWELL: Final = frozenset({Status.DISCONNECTED, Status.DEFECTIVE, Status.UNCONFIGURED})

ReadT = TypeVar("ReadT")


class MxsOptions(Options):
    """Options of an MXS-9100 in a testbed."""

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and for its first answer")
    disconnect: Literal["open", "scan-0"] = Field(
        default="open", description="how an input is freed: ROUTe<n>:OPEN, or ROUTe<n>:SCAN 0"
    )
    read_before: bool = Field(
        default=True, description="read the crossconnects just before each change, to know what it moved away"
    )


class MxsSwitch:
    """One session with one switch; open it with `MxsSwitch.open`. There is no login."""

    def __init__(self, context: OpenContext, options: MxsOptions, client: ScpiClient) -> None:
        self.name = context.name
        self._context = context
        self._options = options
        self._client = client
        self._inputs = sum(end.side is Side.A for end in context.capabilities.ends)
        self._outputs = len(context.capabilities.ends) - self._inputs

    @classmethod
    async def open(cls, context: OpenContext) -> "MxsSwitch":
        """Connect, and clear old errors. Raises FailedError for a unit that reports a failure."""
        options = context.options_as(MxsOptions)
        deadline_s = asyncio.get_running_loop().time() + options.open_within_s
        client = await ScpiClient.open(
            context.dialer,
            context.address,
            name=context.name,
            clock=context.clock,
            deadline_s=deadline_s,
            end=protocol.LINE_END,
            serial=protocol.LINE,
        )
        try:
            switch = cls(context, options, client)
            while (await client.error(deadline_s=deadline_s)).code != NO_ERROR:
                pass
            await switch._ready(deadline_s)
        except BaseException:
            await client.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        (unit,) = await self._read([protocol.IDENTITY], protocol.read_identity, deadline_s)
        return unit

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model: the unit is not known to report its size."""
        return replace(self._context.capabilities, reports_before=self._options.read_before)

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        (status,) = await self._read([protocol.STATUS], protocol.read_status, deadline_s)
        is_known = isinstance(status, Status) and status is not Status.BUSY
        state = CrossconnectState.UNSTATED if is_known else CrossconnectState.TUNING
        pairs = await self._pairs(deadline_s)
        return tuple(CrossconnectReading(crossconnect=pair, state=state) for pair in pairs)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """Free the inputs of existing pairs of `remove`, set each of `add`, wait for status READY, and read back.

        An input that another client has reconnected meanwhile is left alone: the unit frees an input whatever its
        output. Raises DeviceError where something was not done, with the text of the error queue if there is one.
        """
        if not remove and not add:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        freed = {pair: self._number(pair.a, Side.A) for pair in remove}
        connects = [protocol.connect(self._number(pair.a, Side.A), self._number(pair.b, Side.B)) for pair in add]
        before = await self._pairs(deadline_s) if self._options.read_before else None
        there = before if before is not None else await self._pairs(deadline_s, [*freed.values()])
        commands = [*(self._free(near) for pair, near in freed.items() if pair in there), *connects]
        if not commands:
            return self._unchanged(before, on_commanded)
        what = ";".join(commands)
        commanded_ns: int | None = None
        for line, _ in protocol.lines(commands):
            answered = await self._client.ask(
                f"{line};{protocol.STATUS}",
                answers=1,
                deadline_s=deadline_s,
                what=line,
                on_sent=on_commanded if commanded_ns is None else None,
            )
            commanded_ns = answered.sent_ns if commanded_ns is None else commanded_ns
        await self._ready(deadline_s)
        after = frozenset(await self._pairs(deadline_s))
        acknowledged_ns = self._context.clock.monotonic_ns()
        missing, left = set(add) - after, after & (set(remove) - set(add))
        if missing or left:
            error = await self._client.error(deadline_s=deadline_s)
            if error.code != NO_ERROR:
                raise self._client.refused(what, error)
            text = ", ".join(
                [f"no {pair}" for pair in add if pair in missing] + [f"{pair} still" for pair in remove if pair in left]
            )
            raise DeviceError(
                f"{self.name}: {what}: the device is READY, reports no error and has {text}. Check the unit",
                device=self.name,
                command=what,
                code="not done",
                text=text,
            )
        assert commanded_ns is not None
        return Exchange(
            commanded_ns=commanded_ns, acknowledged_ns=acknowledged_ns, commands=len(commands), before=before
        )

    async def lost(self) -> Exception:
        return await self._client.lost()

    async def close(self) -> None:
        await self._client.close()

    async def _ready(self, deadline_s: float) -> None:
        """Wait until the mirrors have settled. Raises FailedError for a unit that does not work, DeadlineError."""
        loop = asyncio.get_running_loop()
        while True:
            (status,) = await self._read([protocol.STATUS], protocol.read_status, deadline_s)
            if status is Status.READY:
                return
            if status in UNWELL:
                raise FailedError(f"{self.name}: the switch reports {status}. Check the unit")
            if loop.time() + POLL_S >= deadline_s:
                raise DeadlineError(f"{self.name}: still {status} at the deadline. Allow more time")
            await asyncio.sleep(POLL_S)

    def _unchanged(
        self, before: tuple[Crossconnect, ...] | None, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """The exchange of a change that changes nothing."""
        now_ns = self._context.clock.monotonic_ns()
        if on_commanded is not None:
            on_commanded(now_ns)
        return Exchange(commanded_ns=now_ns, acknowledged_ns=now_ns, commands=0, before=before)

    async def _pairs(self, deadline_s: float, nears: Sequence[int] | None = None) -> tuple[Crossconnect, ...]:
        """The pairs of all inputs, or of `nears`."""
        asked = range(1, self._inputs + 1) if nears is None else nears
        queries = [protocol.connected(near) for near in asked]
        answers = await self._read(queries, str, deadline_s)
        try:
            found = protocol.read_outputs(answers, self._outputs)
        except ProtocolError as error:
            raise self._client.distrust(answers, error) from error
        return tuple(_pair(near, far) for near, far in zip(asked, found, strict=True) if far != OPEN)

    async def _read(self, queries: Sequence[str], reader: Callable[[str], ReadT], deadline_s: float) -> list[ReadT]:
        """The result of `reader` for each answer."""
        found: list[ReadT] = []
        for line, answers in protocol.lines(queries):
            for answer in (await self._client.ask(line, answers=answers, deadline_s=deadline_s)).messages:
                try:
                    found.append(reader(answer))
                except ProtocolError as error:
                    raise self._client.distrust(answer, error) from error
        return found

    def _free(self, near: int) -> str:
        return protocol.disconnect(near) if self._options.disconnect == "open" else protocol.connect(near, OPEN)

    def _number(self, end: PortSide, side: Side) -> int:
        limit = self._inputs if side is Side.A else self._outputs
        if end.side is not side or not end.port.isdecimal() or not 1 <= int(end.port) <= limit:
            raise ConfigError(f"{self.name}: port {end}: a unit of {self._inputs}x{self._outputs} has no such port")
        return int(end.port)


def _pair(near: int, far: int) -> Crossconnect:
    return Crossconnect.of(PortSide(port=str(near), side=Side.A), PortSide(port=str(far), side=Side.B))
