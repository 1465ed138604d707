"""The PHY of an mlx5 NIC as its firmware reports it, by the vendor's tool: `mlxlink` (MFT) or `mstlink` (mstflint).

Both write the same JSON.

The RDMA port's `phys_state` is no substitute: the driver derives it from the carrier. Without a tool the PHY is
unknown.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from hwd_agents.process.config import SamplingConfig
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError, ProtocolError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json

from .interface_drivers import DriverSource
from .tool import output_of
from .unknown_words import UnknownWords

TOOLS: Final = ("mlxlink", "mstlink")
DRIVER: Final = "mlx5_core"
ANSWER_WITHIN_S: Final = 10.0
"""Longest run of the tool: it maps the NIC's registers and asks its firmware for a page of them."""

UP: Final = frozenset({"Active", "Physical LinkUp"})
DOWN: Final = frozenset(
    {
        "Disable",
        "Disabled",
        "Polling",
        "Port PLL Down",
        "Close port",
        "Sleep",
        "Rx disable",
        "Signal detect",
        "Receiver detect",
        "Sync peer",
        "Negotiation",
        "Training",
        "SubFSM active",
    }
)
"""States of the PHY manager as the tool spells them (mlxlink_maps.cpp of mstflint: 14, and an older spelling). A PHY in
any other state is not up: it trains, or does what is not known here.
"""


class ToolPhys:
    """A PhySource that polls, fast while a port is observed.

    A change lies between the start of the poll before it and the end of the poll that found it.

    phys = ToolPhys(["eth0"], drivers, clock, SamplingConfig(), tool=find_tool())
    """

    polled = True

    def __init__(
        self,
        interfaces: list[str],
        drivers: DriverSource,
        clock: Clock,
        sampling: SamplingConfig,
        *,
        tool: str | None,
        origin: str = "measured",
    ) -> None:
        self._drivers = drivers
        self._clock = clock
        self._sampling = sampling
        self._tool = tool
        self._why_not = dict.fromkeys(interfaces, "its PHY was not read yet")
        self._held_ns: dict[str, int] = {}
        self._unknown_words = UnknownWords("the state of a PHY, as the vendor's tool says it,")
        self._observed: dict[str, asyncio.Event] = {interface: asyncio.Event() for interface in interfaces}
        missing = (
            f"neither {' nor '.join(TOOLS)} is installed, and nothing else reports a NIC's own PHY. "
            "Install mstflint or NVIDIA's MFT"
        )
        self.note = SourceNote(sees=["firmware"], origin=origin, why_not="" if tool else missing)

    async def open_phy(self, on_change: Callable[[str, bool, int, int], None], on_note: Callable[[], None]) -> None:
        """Report each PHY as it is, then each change, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for interface in self._observed if self._tool is not None else ():
                group.create_task(
                    self._poll(self._tool or "", interface, on_change, on_note), name=f"hwd:phy/{interface}"
                )

    def observe(self, interface: str, on: bool) -> None:
        observed = self._observed[interface]
        (observed.set if on else observed.clear)()

    def why_not(self, interface: str) -> str:
        return self.note.why_not or self._why_not.get(interface, "")

    async def _poll(
        self,
        tool: str,
        interface: str,
        on_change: Callable[[str, bool, int, int], None],
        on_note: Callable[[], None],
    ) -> None:
        while True:
            before_ns = self._clock.monotonic_ns()
            was = self._why_not[interface]
            try:
                up = await self._read(tool, interface)
            except (HwdError, OSError) as error:
                self._why_not[interface] = reason_of(error)
            else:
                self._why_not[interface] = ""
                after_ns = self._clock.monotonic_ns()
                on_change(interface, up, self._held_ns.get(interface, before_ns), after_ns)
                self._held_ns[interface] = before_ns
            if was != self._why_not[interface]:
                on_note()
            if self._observed[interface].is_set():
                await asyncio.sleep(self._sampling.firmware_fast_s)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sampling.firmware_slow_s or None):
                    await self._observed[interface].wait()

    async def _read(self, tool: str, interface: str) -> bool:
        driver = await self._drivers.read_driver(interface)
        if driver.name != DRIVER or driver.bus is None:
            raise RefusedError(
                f"{interface}: its driver is {driver.name}, and {tool} reads the PHY of {DRIVER} NICs only"
            )
        answer = await output_of(tool, "-d", driver.bus, "--json", within_s=ANSWER_WITHIN_S)
        return parse_state(interface, answer, lambda word: self._unknown_words.take(word, "not up"))


def find_tool() -> str | None:
    """The path of the tool that is installed; None without one."""
    return next((path for name in TOOLS if (path := shutil.which(name)) is not None), None)


def parse_state(interface: str, answer: bytes, unknown: Callable[[str], None] = lambda word: None) -> bool:
    """Whether the PHY is up, from the tool's `--json` output: not where `unknown` is told of the state. Raises
    ProtocolError when it does not say one.
    """
    try:
        found: Mapping[str, Any] = from_json(answer, dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{interface}: the vendor's tool wrote no JSON: {reason_of(error)}") from error
    for key in ("result", "output", "Operational Info"):
        below = found.get(key)
        if not isinstance(below, dict):
            raise ProtocolError(f"{interface}: the vendor's tool wrote JSON without {key!r}: {str(found)[:100]}")
        found = below
    state = found.get("State")
    if not isinstance(state, str):
        raise ProtocolError(f"{interface}: the state of its PHY is {state!r}, which is no text")
    word = state.strip()
    if word not in UP | DOWN:
        unknown(word)
    return word in UP
