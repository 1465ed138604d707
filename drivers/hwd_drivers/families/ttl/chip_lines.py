"""ChipLines: the lines of a GPIO chip of this machine, by `gpiod` (libgpiod 2), which blocks: it runs in a thread."""

import asyncio
import errno
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError
from hwd_drivers.core.offload import Offload
from hwd_drivers.families.ttl.protocol import Bank, Pulse, Set

if TYPE_CHECKING:
    import gpiod

T = TypeVar("T")

_REMEDIES: Final = {
    errno.EACCES: "Give this user the chip, such as by a udev rule",
    errno.EPERM: "Give this user the chip, such as by a udev rule",
    errno.EBUSY: "Another program has one of these lines: `gpioinfo` names it",
    errno.ENOENT: "No such chip: `gpiodetect` lists them",
    errno.ENODEV: "The chip was removed",
    errno.EINVAL: "Check the line numbers: `gpioinfo` lists them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Use of lines: `held` keep their level until they are set, `idle` are driven at once, `inputs` are read."""

    held: tuple[int, ...]
    idle: Mapping[int, bool]
    inputs: tuple[int, ...]


class ChipLines:
    """Lines by their numbers, with levels as on the wire; open it with `ChipLines.open`.

    A pulse that has started ends, even if its caller is cancelled. A killed process leaves the lines as they are, even
    inside a pulse.
    """

    def __init__(self, name: str, path: str, chip: "_Chip", offload: Offload, clock: Clock) -> None:
        self._name = name
        self._path = path
        self._chip = chip
        self._offload = offload
        self._clock = clock
        self._lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls, path: str, use: Use, *, name: str, clock: Clock, offload: Offload, deadline_s: float
    ) -> "ChipLines":
        """Request the lines from the kernel; nothing moves.

        Raises LinkError where the kernel refuses, ConfigError where `gpiod` is not installed.
        """
        try:
            import gpiod
        except ImportError as error:
            raise ConfigError(
                f"{name}: {path} needs the package gpiod, which is not installed. pip install 'hwd-drivers[gpio]'"
            ) from error
        try:
            async with asyncio.timeout_at(deadline_s):
                chip = await offload(_Chip, gpiod, path, use, f"hwd {name}")
        except TimeoutError:
            raise DeadlineError(f"{name}: {path}: the kernel did not grant the lines in time") from None
        except OSError as error:
            raise LinkError(f"{name}: cannot open {path}: {_words(error)}") from error
        return cls(name, path, chip, offload, clock)

    async def identify(self, *, deadline_s: float) -> Bank:
        return await self._do("chip info", deadline_s, self._chip.identify)

    async def read(self, lines: Sequence[int], *, deadline_s: float) -> Mapping[int, bool]:
        return await self._do(f"read {','.join(map(str, lines))}", deadline_s, self._chip.read, tuple(lines))

    async def carry_out(
        self, orders: Sequence[Set | Pulse], *, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> int:
        """Do all in one call in one thread: a pulse keeps its width on a busy loop, and ends even after cancellation.

        Returns `Clock.monotonic_ns` of just before its start, as passed to `on_sent`. Nothing is done after the
        deadline.
        """
        sent_ns = self._clock.monotonic_ns()
        if on_sent is not None and not self._lost.done() and deadline_s > asyncio.get_running_loop().time():
            on_sent(sent_ns)
        await self._do("move", deadline_s, self._chip.carry_out, tuple(orders))
        return sent_ns

    async def lost(self) -> Exception:
        return await asyncio.shield(self._lost)

    async def close(self) -> None:
        if not self._lost.done():
            self._lost.set_result(LinkError(f"{self._name}: we closed {self._path}"))
            await self._offload(self._chip.release)

    async def _do(self, what: str, deadline_s: float, function: Callable[..., T], *arguments: Any) -> T:
        if self._lost.done():
            cause = self._lost.result()
            raise LinkError(f"{cause} (in {what})") from cause
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        if deadline_s <= started_s:
            raise DeadlineError(f"{self._name}: {what}: not done, its deadline is over. Allow more time")
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._offload(function, *arguments)
        except TimeoutError:
            raise DeadlineError(
                f"{self._name}: {what}: {self._path} did not answer within {deadline_s - started_s:.3g} s"
            ) from None
        except OSError as error:
            cause = LinkError(f"{self._name}: {what}: {self._path}: {_words(error)}")
            if not self._lost.done():
                self._lost.set_result(cause)
                await self._offload(self._chip.release)
            raise cause from error


class _Chip:
    """The blocking side. Its methods are called one at a time, never in the loop."""

    def __init__(self, library: Any, path: str, use: Use, consumer: str) -> None:
        line = library.line
        self._library = library
        self._path = path
        self._active, self._inactive = line.Value.ACTIVE, line.Value.INACTIVE
        as_is = library.LineSettings(direction=line.Direction.AS_IS)
        inputs = library.LineSettings(direction=line.Direction.INPUT)
        config: dict[int, Any] = dict.fromkeys(use.held, as_is) | dict.fromkeys(use.inputs, inputs)
        config |= {number: self._output(level) for number, level in use.idle.items()}
        self._request: gpiod.LineRequest = library.request_lines(path, config=config, consumer=consumer[:31])
        try:
            held = {number: self._output(level) for number, level in self.read(use.held).items()}
            if held:
                self._request.reconfigure_lines({**config, **held})
        except BaseException:
            self._request.release()
            raise

    def identify(self) -> Bank:
        with self._library.Chip(self._path) as chip:
            info = chip.get_info()
        label = "_".join(info.label.split()) or info.name
        return Bank(lines=info.num_lines, label=label, version=f"gpiod-{self._library.__version__}", serial=info.name)

    def read(self, lines: tuple[int, ...]) -> dict[int, bool]:
        if not lines:
            return {}
        values = self._request.get_values(list(lines))
        return {number: value == self._active for number, value in zip(lines, values, strict=True)}

    def carry_out(self, orders: tuple[Set | Pulse, ...]) -> None:
        for order in orders:
            try:
                self._set(order.levels)
                if isinstance(order, Pulse):
                    threading.Event().wait(order.width_us / 1e6)
            finally:
                if isinstance(order, Pulse):
                    self._set({number: not level for number, level in order.levels.items()})

    def release(self) -> None:
        self._request.release()

    def _set(self, levels: Mapping[int, bool]) -> None:
        self._request.set_values(
            {number: self._active if level else self._inactive for number, level in levels.items()}
        )

    def _output(self, level: bool) -> Any:
        return self._library.LineSettings(
            direction=self._library.line.Direction.OUTPUT, output_value=self._active if level else self._inactive
        )


def _words(error: OSError) -> str:
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.strerror or error}{f'. {remedy}' if remedy else ''}"
