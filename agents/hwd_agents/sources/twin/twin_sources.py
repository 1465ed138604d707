"""TwinSources: the sources of a twin host, read over its wire; it reconnects when the rack is back."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, TypeVar

import msgspec

from hwd_agents.sources.kernel.interface_drivers import DriverSource
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters
from hwd_agents.sources.kernel.port_counters import KernelBytes
from hwd_agents.sources.kernel.udp import DatagramSource
from hwd_agents.sources.link_source import LinkReading, LinkSource, Origin
from hwd_agents.sources.readings import FileReading, ModuleReading
from hwd_agents.sources.setting_source import SettingSource
from hwd_agents.sources.sources import Sources
from hwd_agents.sources.twin import hostwire
from hwd_agents.sources.twin.hostwire_client import HostWireClient, Report
from hwd_agents.sources.twin.twin_phys import DistantPhys, TwinPhys
from hwd_agents.sources.twin.twin_ports import TwinDatagrams
from hwd_agents.sources.twin.twin_settings import TwinSettings
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock, ShiftedClock
from hwd_drivers.core.errors import DeadlineError, HwdError, LinkError
from hwd_drivers.transports.dial import Dialer

RETRY_FIRST_S: Final = 0.05
RETRY_MOST_S: Final = 1.0
"""The rack is on this machine and each of its hosts has one agent, so that no backoff is needed."""

AnswerT = TypeVar("AnswerT", bound=hostwire.Answer)
_log = logging.getLogger(__name__)


class TwinSources:
    """The wire to one twin host; `run` keeps it connected, `sources()` returns the sources that read over it.

        twin = TwinSources(TcpDialer(), "unix:/run/h0.sock", clock, host="h0")
        agent = Agent(..., sources=twin.sources())

    On a kernel twin, `sources(link=..., datagrams=...)` takes those two from the kernel. While the rack is away every
    read raises LinkError, and each note says why. `same_clock`: the twin is on this machine, so that its stamps can be
    used here.
    """

    def __init__(
        self,
        dialer: Dialer,
        address: str,
        clock: Clock,
        *,
        host: str,
        deadline_s: float = 2.0,
        same_clock: bool = True,
    ) -> None:
        self._dialer = dialer
        self._address = address
        self._host = host
        self._deadline_s = deadline_s
        self._clock = clock
        self._wire: HostWireClient | None = None
        self._life = ""
        self._reached = asyncio.Event()
        self._why_not = f"{host}: its twin at {address} was not reached yet"
        self._on_change: Callable[[], None] | None = None
        self.links = TwinLinks(self, clock)
        self.datagrams = TwinDatagrams(self, clock)
        self.modules = TwinModules(self, clock)
        self.files = TwinFiles(self, clock)
        self.phys = TwinPhys(clock) if same_clock else DistantPhys(self._ask_for_phys, clock)
        self.settings = TwinSettings(self)
        self._note_all({})

    @property
    def life(self) -> str:
        """Identifies one run of the twin host's counters; the last one known while the rack is away."""
        return self._life

    @property
    def why_not(self) -> str:
        return self._why_not

    def sources(
        self,
        *,
        link: tuple[LinkSource, SourceNote] | None = None,
        datagrams: tuple[DatagramSource, SourceNote] | None = None,
        settings: SettingSource | None = None,
        drivers: DriverSource | None = None,
        bytes: KernelBytes | None = None,
        ip_counters: KernelIpCounters | None = None,
    ) -> Sources:
        """All sources of the host. A source passed in replaces the twin's; a kernel twin has its kernel's drivers and
        counters.
        """
        return Sources(
            link=self.links if link is None else _AfterWelcome(link[0], self._reached),
            link_note=lambda: self.links.note if link is None else link[1],
            datagrams=self.datagrams if datagrams is None else datagrams[0],
            datagrams_note=lambda: self.datagrams.note if datagrams is None else datagrams[1],
            life=lambda: self._life,
            modules=self.modules,
            files=self.files,
            phy=self.phys,
            settings=self.settings if settings is None else settings,
            drivers=drivers,
            bytes=bytes,
            ip_counters=ip_counters,
            background=self.run,
        )

    async def run(self, on_change: Callable[[], None]) -> None:
        """Keep the wire connected until cancelled; `on_change` is called after each connect and disconnect."""
        self._on_change = on_change
        wait_s = RETRY_FIRST_S
        while True:
            try:
                lost = await self._live()
                wait_s = RETRY_FIRST_S
            except (OSError, HwdError) as error:
                lost = error
            self._leave(lost)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_MOST_S)

    async def ask(self, make: Callable[[int], hostwire.FromAgent], expected: type[AnswerT]) -> AnswerT:
        """Ask the twin. Raises LinkError when it is away or refuses, DeadlineError when it does not answer."""
        if self._wire is None:
            raise LinkError(self._why_not)
        asked_ns = self._clock.monotonic_ns()
        answer = await self._wire.ask(make, expected, deadline_s=self._deadline_s)
        self.phys.answered(asked_ns)
        return answer

    async def _ask_for_phys(self) -> None:
        await self.ask(lambda number: hostwire.Refresh(id=number), hostwire.SnapshotEnd)

    def tell(self, frame: hostwire.FromAgent) -> bool:
        if self._wire is None:
            return False
        self._wire.send(frame)
        return True

    async def _live(self) -> Exception:
        """One connection, from dial to loss; returns what ended it."""
        wire: HostWireClient | None = None
        try:
            async with asyncio.timeout(self._deadline_s):
                _, wire = await self._dialer.connect(lambda: HostWireClient(self._host, self._take), self._address)
                welcome = await wire.greeted()
            await self._enter(wire, welcome)
            return await asyncio.shield(wire.lost)
        except TimeoutError as error:
            words = f"{self._host}: its twin at {self._address} did not answer in {self._deadline_s:g} s"
            raise DeadlineError(words) from error
        finally:
            self._wire = None
            if wire is not None:
                wire.close()

    async def _enter(self, wire: HostWireClient, welcome: hostwire.Welcome) -> None:
        _log.info("%s: its twin at %s is there", self._host, self._address)
        self._wire = wire
        self._why_not = ""
        self._note_all(welcome.notes)
        self.links.end_snapshot()
        await self.datagrams.open_again()
        if self._on_change is not None:
            self._on_change()

    def _leave(self, cause: Exception) -> None:
        if not self._why_not:
            _log.warning("%s: its twin at %s is away: %s", self._host, self._address, cause)
        self._why_not = f"{self._host}: its twin at {self._address} is away: {cause}"
        self._note_all({})
        self.links.forget_snapshot()
        if self._on_change is not None:
            self._on_change()

    def _note_all(self, notes: dict[str, SourceNote]) -> None:
        why_not = self._why_not or f"{self._host}: its twin does not have this"
        missing = SourceNote(sees=[], origin="twin", why_not=why_not)
        self.links.note = notes.get("link", missing)
        self.datagrams.note = notes.get("datagrams", missing)
        self.modules.note = notes.get("module", missing)
        self.files.note = notes.get("file", missing)
        self.phys.note = notes.get("phy", missing)

    def _step_clock(self, step_s: float) -> None:
        if isinstance(self._clock, ShiftedClock):
            self._clock.step_to(step_s)
        elif step_s:
            _log.warning("%s: its twin's clock was stepped by %g s, and ours cannot be", self._host, step_s)

    def _take(self, frame: Report) -> None:
        match frame:
            case hostwire.Welcome():
                self._life = frame.life  # before the links, whose counters belong to it
                self._reached.set()
                self._step_clock(frame.clock_step_s)
            case hostwire.ClockStepped():
                self._step_clock(frame.clock_step_s)
            case hostwire.LinkReport():
                self.links.take(frame)
            case hostwire.PhyReport():
                self.phys.take(frame)
            case hostwire.Datagram():
                self.datagrams.take(frame)


class TwinLinks:
    """LinkSource. A change lies between the twin's stamp and our receipt, or after the last known state.

    What a report says was certain when the twin stamped it. Its receipt may be much later, and the next change before
    that: an agent that had to wait for its turn reads both at once.
    """

    note: SourceNote

    def __init__(self, twin: TwinSources, clock: Clock) -> None:
        self._twin = twin
        self._clock = clock
        self._on_reading: Callable[[LinkReading], None] | None = None
        self._known: dict[str, LinkReading] = {}
        self._held_ns: dict[str, int] = {}  # by interface: the latest time at which the known state was certain
        self._snapshot: dict[str, bool] = {}  # interfaces of the snapshot that is arriving
        self._have_snapshot = asyncio.Event()

    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        """Start; waits until the rack is reached, without limit."""
        await self._have_snapshot.wait()
        self._on_reading = on_reading
        for reading in self._known.values():
            if reading.present:
                on_reading(reading)

    async def refresh(self, interfaces: Collection[str] | None = None) -> None:
        """Read all again, whichever are asked for. Raises LinkError while the rack is away."""
        await self._twin.ask(lambda number: hostwire.Refresh(id=number), hostwire.SnapshotEnd)
        self.end_snapshot()

    async def close(self) -> None:
        self._on_reading = None

    def take(self, frame: hostwire.LinkReport) -> None:
        at_ns = self._clock.monotonic_ns()
        interface = frame.link.interface
        held_ns = self._held_ns.get(interface)
        stamp_ns = min(at_ns, self._clock.kernel_bounds_ns(frame.stamp_ns)[0])
        if frame.snapshot:
            self._snapshot[interface] = True
            earliest_ns = held_ns
        else:
            earliest_ns = stamp_ns if held_ns is None else max(held_ns, stamp_ns)
        self._held_ns[interface] = stamp_ns if held_ns is None else max(held_ns, stamp_ns)
        origin = Origin.DUMP if frame.snapshot else Origin.NOTICE
        state = msgspec.structs.asdict(frame.link)
        reading = LinkReading(**state, present=True, origin=origin, at_ns=at_ns, earliest_ns=earliest_ns)
        self._tell(reading if frame.present else reading.gone(origin=origin, at_ns=at_ns, earliest_ns=earliest_ns))

    def end_snapshot(self) -> None:
        """Every interface that exists has been reported: any other is gone."""
        at_ns = self._clock.monotonic_ns()
        for interface, known in list(self._known.items()):
            if known.present and interface not in self._snapshot:
                held_ns = self._held_ns[interface]
                self._tell(known.gone(origin=Origin.DUMP, at_ns=at_ns, earliest_ns=held_ns))
        self._snapshot.clear()
        self._have_snapshot.set()

    def forget_snapshot(self) -> None:
        """The wire is lost: the next snapshot starts anew."""
        self._snapshot.clear()
        self._have_snapshot.clear()

    def _tell(self, reading: LinkReading) -> None:
        self._known[reading.interface] = reading
        if self._on_reading is not None:
            self._on_reading(reading)


class _AfterWelcome:
    """The kernel's links of a twin host, after its rack was reached once: then the run of the counters is known."""

    def __init__(self, inner: LinkSource, reached: asyncio.Event) -> None:
        self._inner = inner
        self._reached = reached

    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        await self._reached.wait()
        await self._inner.open(on_reading)

    async def refresh(self, interfaces: Collection[str] | None = None) -> None:
        await self._inner.refresh(interfaces)

    async def close(self) -> None:
        await self._inner.close()


class TwinModules:
    """ModuleSource."""

    note: SourceNote

    def __init__(self, twin: TwinSources, clock: Clock) -> None:
        self._twin = twin
        self._clock = clock

    async def read_module(self, interface: str) -> ModuleReading:
        before_ns = self._clock.monotonic_ns()
        answer = await self._twin.ask(
            lambda number: hostwire.ReadModule(id=number, interface=interface), hostwire.Module
        )
        after_ns = self._clock.monotonic_ns()
        return ModuleReading(interface=interface, memory=answer.memory, before_ns=before_ns, after_ns=after_ns)


class TwinFiles:
    """FileSource; paths are relative to /sys."""

    note: SourceNote

    def __init__(self, twin: TwinSources, clock: Clock) -> None:
        self._twin = twin
        self._clock = clock

    async def read_file(self, path: str) -> FileReading:
        before_ns = self._clock.monotonic_ns()
        answer = await self._twin.ask(lambda number: hostwire.ReadFile(id=number, path=path), hostwire.File)
        after_ns = self._clock.monotonic_ns()
        return FileReading(path=path, text=answer.text, before_ns=before_ns, after_ns=after_ns)
