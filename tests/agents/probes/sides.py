"""Hosts with a readiness probe each, joined port by port: the carrier and the RDMA state are what a test says."""

from hwd_agents.probes.readiness import Probe
from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import PortConfig, ProbeConfig
from hwd_agents.sources.verbs.verbs import PortEvent
from hwd_agents.wire import Peer, VerbsAddress

from ..conftest import Ear, Stage, ip
from .played_verbs import PlayedVerbs


class Side:
    """One host's probe, by UDP alone or with an RDMA port; `missing` says why that cannot be opened."""

    def __init__(
        self,
        one: Stage,
        name: str,
        *,
        ports: int = 1,
        config: ProbeConfig | None = None,
        verbs: bool = False,
        device: str | None = "mlx5_0",
        missing: str = "",
    ) -> None:
        self.name = name
        self.ear = Ear()
        self.carrier: dict[str, bool | None] = {f"eth{number}": False for number in range(ports)}
        self.rdma: dict[str, bool | None] = {f"eth{number}": True for number in range(ports)}
        self.opened = 0
        self.stage = one
        self.config = {
            port: PortConfig(interface=port, ip=ip(name, number), rdma=device if verbs else None)
            for number, port in enumerate(self.carrier)
        }
        self.verbs = PlayedVerbs(one.clock, "mlx5_0")
        if missing:
            self.verbs.missing["mlx5_0"] = missing
        self.ports = VerbsPorts(self.config, self.verbs, on_change=lambda: None)
        self.probe = Probe(
            name,
            self.config,
            one.sources[name].datagrams,
            one.clock,
            self.ear,
            carrier=lambda port: self.carrier[port],
            rdma=lambda port: self.rdma[port],
            config=config or ProbeConfig(),
            origin="twin",
            on_port=self._opened,
            verbs=self.ports if verbs else None,
        )
        self._with_verbs = verbs

    def start(self) -> None:
        if self._with_verbs:
            self.stage.run(self.ports)
        self.task = self.stage.run(self.probe)

    def set(self, carrier: bool, port: str = "eth0", *, told: bool = True) -> None:
        self.stage.hosts[self.name].carrier(port, up=carrier)
        self.carrier[port] = carrier
        if told:
            self.probe.carrier_changed(port, carrier=carrier, earliest_ns=self.stage.now_ns())

    def begin(
        self,
        other: str,
        udp_port: int,
        *,
        reconfiguration: str = "r1",
        peer: str = "",
        port: int = 0,
        verbs: VerbsAddress | None = None,
    ) -> None:
        self.probe.begin(
            reconfiguration,
            Peer(
                port=f"{self.name}.eth{port}",
                peer=peer or f"{other}.eth{port}",
                peer_ip=ip(other, port),
                peer_probe_port=udp_port,
                kept=False,
                peer_verbs=verbs,
            ),
        )

    def udp_port(self, port: str = "eth0") -> int:
        number = self.probe.udp_port(port)
        assert number is not None
        return number

    def lose_device(self, why: str) -> None:
        """Its device is opened anew where that can be: with other queue pairs."""
        port = self.verbs.ports["mlx5_0"]
        port.gone = why
        port.happen(PortEvent.GONE)

    def _opened(self) -> None:
        self.opened += 1


def up(*sides: Side) -> None:
    for side in sides:
        side.set(True)


def watch(h0: Side, h1: Side) -> None:
    """Let each look for the other."""
    for side, other in ((h0, h1), (h1, h0)):
        side.begin(other.name, other.udp_port(), verbs=other.ports.address("eth0"))
