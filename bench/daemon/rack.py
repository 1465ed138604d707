"""The daemon's part of `GET /status` in racks of 1x4 and 2x2 switches: from what it knows to JSON."""

import asyncio
import time
from collections import deque
from pathlib import Path

from msgspec.structs import replace

from bench.measure import Bar, Summary
from bench.progress import Progress
from bench.switches.driven_rack import DrivenRack
from bench.switches.elements import OF_A_PAIR, QUICK, STATES, SWITCHES, testbed_of
from hwd.bus.gateway import Gateway
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.hosts.delegations import Delegations
from hwd.model.host import HostBirth, HostPort
from hwd.model.status import Status
from hwd.model.switch import SwitchAdopted
from hwd.ports.ledger import Ledger
from hwd.rack.changes import Changes
from hwd.rack.links import Links
from hwd.rack.nic_ports import NicPorts
from hwd.rack.rack import Rack
from hwd.rack.ready_links import ReadyLinks
from hwd.rack.switches import ReportedSwitches
from hwd.reconfigure.journal.journal import Journal
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.telemetry.alerts import Alerts
from hwd.web.daemonboard import Daemonboard
from hwd.web.rack_status import RackStatus
from hwd.web.turns import to_json_in_turns
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchRead, SwitchUp

LIMITED, LIMIT_MS, PIECE_LIMIT_MS = 8192, 50.0, 10.0
PORT = HostPort(
    interface="enp1s0", present=True, ip=None, carrier=True, carrier_changes=0, probe_port=None, sources={}, rdma=True
)


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    bars: list[Bar] = []
    for switches in QUICK if quick else SWITCHES:
        progress.say(f"status of the rack: a rack of {switches} switches is made")
        rack = _Rack(switches // OF_A_PAIR, folder)
        first_s, first_piece_s = await rack.answer()
        turns = 10 if quick else 50
        progress.say(f"status of the rack: {switches} switches, {turns} turns")
        taken: list[float] = []
        pieces: list[float] = []
        for turn in range(turns):
            rack.move(turn)
            whole_s, piece_s = await rack.answer()
            taken.append(whole_s * 1e3)
            pieces.append(piece_s * 1e3)
        whole, piece = Summary.of(taken), Summary.of(pieces)
        limited = switches == LIMITED
        of = f"status of a rack of {switches} switches of 1x4 and 2x2"
        bars += [
            Bar(
                name=of,
                value=whole.median,
                limit=LIMIT_MS if limited else None,
                unit="ms",
                spread=f"quartiles {whole.p25:.1f}-{whole.p75:.1f}, max {whole.max:.1f}; the first {first_s * 1e3:.0f}",
                n=whole.n,
                detail={"ours_ms": whole.to_data()},
            ),
            Bar(
                name=f"{of}, longest piece in the event loop",
                value=piece.median,
                limit=PIECE_LIMIT_MS if limited else None,
                unit="ms",
                spread=f"max {piece.max:.1f}; of the first {first_piece_s * 1e3:.1f}",
                n=piece.n,
                detail={"ours_ms": piece.to_data()},
            ),
        ]
    return bars


class _Rack:
    """Pairs of NIC ports, all joined, with carrier, and desired so; between two answers one is made anew."""

    def __init__(self, pairs: int, folder: Path) -> None:
        testbed, clock, ledger = testbed_of(pairs), SystemClock(), Ledger()
        fabric, records = Fabric(testbed), Records("sqlite://", InlineOffload())
        self._clock, self._testbed, in_use = clock, testbed, InUse(fabric)
        ports = NicPorts()
        ready = ReadyLinks(ports)
        switches = ReportedSwitches(testbed.switches)
        links = Links(fabric, switches, ports, clock.wall_ns)
        alerts = Alerts(clock, ports, ready)
        gateway = Gateway(
            bus=MemoryBus(MemoryBroker(), "hwd", clock),
            testbed=testbed.name,
            hosts=tuple(testbed.hosts),
            clock=clock,
            ids=RandomIds(),
            sink=lambda document: None,
        )
        driven = DrivenRack(testbed=testbed, supervisors={}, documents=deque(maxlen=1000), offload=InlineOffload())
        reconfigurer = driven.reconfigurer(Journal(FileDisk(folder / "journal"), sync=False))
        changes = Changes(testbed.switches)
        self._sinks = (ports, ready, switches, links, changes, alerts, reconfigurer.desired)
        self.status = RackStatus(
            in_use=in_use,
            version="0",
            commit="0",
            rack=Rack(switches=switches, ports=ports, links=links, changes=changes),
            alerts=alerts,
            own=Daemonboard(),
            gateway=gateway,
            delegations=Delegations(
                gateway,
                in_use,
                store=records.delegations,
                ledger=ledger,
                clock=clock,
                sink=lambda document: None,
                on_answer=lambda *answer: None,
            ),
            reconfigurer=reconfigurer,
            recorder=RecordingSink(records),
        )
        for name, switch in testbed.switches.items():
            readings = STATES[switch.capabilities.two_sided]
            pairs_ = [one.crossconnect for one in readings]
            self._tell(SwitchUp(switch=name, vendor="osw", model="osw", serial=name, firmware="1", down_s=0.0))
            self._tell(SwitchRead(switch=name, crossconnects=[*readings], added=pairs_, removed=[], ours=False))
            self._tell(SwitchAdopted(switch=name, crossconnects=pairs_, free=[], by="bench"))
        for host in testbed.hosts:
            self._tell(HostBirth(host=host, boot="b", version="0", ports={"eth0": PORT}))

    def _tell(self, fact: Fact) -> None:
        document = Document(at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), fact=fact)
        for sink in self._sinks:
            sink(document)

    def move(self, turn: int) -> None:
        """One switch loses its crossconnects, and its host a carrier; that of the turn before has them again."""
        count = len(self._testbed.switches) // OF_A_PAIR
        for number, there in ((turn % count, False), ((turn - 1) % count, True)):
            readings = STATES[True] if there else ()
            self._tell(SwitchRead(switch=f"x{number}", crossconnects=[*readings], added=[], removed=[], ours=True))
            port = replace(PORT, carrier=there)
            self._tell(HostBirth(host=f"p{number}", boot="b", version="0", ports={"eth0": port}))

    async def answer(self) -> tuple[float, float]:
        """How long the answer took, and the longest that nothing else ran."""
        longest_s, ended = 0.0, False

        async def watch() -> None:
            nonlocal longest_s
            before_s = time.perf_counter()
            while not ended:
                await asyncio.sleep(0)
                now_s = time.perf_counter()
                longest_s, before_s = max(longest_s, now_s - before_s), now_s

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        began_s = time.perf_counter()
        await to_json_in_turns(await self._whole())
        took_s = time.perf_counter() - began_s
        ended = True
        await watching
        return took_s, longest_s

    async def _whole(self) -> Status:
        rack = self.status
        return Status(
            testbed=self._testbed.name,
            version=rack.version,
            alerts=rack.alerts(),
            bus=rack.bus(),
            records=rack.records(),
            journal=rack.journal(),
            leases=[],
            held=[],
            reconfigurations=[],
            open=[],
            runs=[],
            queue=[],
            switches=await rack.switches(),
            composites=rack.composites(),
            hosts=await rack.hosts(),
            lit=await rack.links(),
            desired=await rack.desired(),
            unlit=rack.unlit(),
            orphans=await rack.orphans(),
        )
