"""JobPlaces: where the ranks of one job are on the rack: their NIC ports, their addresses, the fibres from there."""

from collections.abc import Iterable
from functools import cached_property

from msgspec.structs import replace

from hwd.jobs.efficiency.port_rates import PortRates, packet_switches
from hwd.jobs.view import view_of
from hwd.model.job import JobRecord
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Job, View
from hwd.model.testbed import Testbed
from hwd_agents.wire import RankPlace
from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.values import natural_key


class JobPlaces:
    """The places of a job by the testbed file that the job began with, or that the daemon started with."""

    def __init__(self, testbed: Testbed, job: Job, rates: PortRates) -> None:
        self._testbed = testbed
        self._job = job
        self._rates = rates

    @cached_property
    def view(self) -> View:
        """Raises FailedError where the testbed file does not have its hosts any more."""
        if gone := [host for host in self._job.hosts if host not in self._testbed.hosts]:
            raise FailedError(f"{', '.join(gone)}: no host of the testbed file any more")
        return view_of(self._testbed, self._job)

    def ranks(self) -> list[RankPlace]:
        """The places of the ranks in the order of their numbers."""
        return [
            RankPlace(
                host=one.host,
                gpu=one.gpu,
                optical=self._addresses(one.number, optical=True),
                electrical=self._addresses(one.number, optical=False),
            )
            for one in self._job.ranks
        ]

    def meeting_address(self) -> str | None:
        """Where all reach rank 0: within its host, else over packet switches, else over light."""
        if len(self._job.hosts) == 1:
            return "127.0.0.1"
        addresses = self._addresses(0, optical=False) or self._addresses(0, optical=True)
        return next(iter(addresses.values()), None)

    def on_record(self, record: JobRecord) -> JobRecord:
        """Put all this into the record, for whoever reads the records."""
        ranks = [
            replace(at, optical=_words(self.view.ports_of(rank)), electrical=_words(self._electrical(rank.host)))
            for at, rank in zip(record.ranks, self._job.ranks, strict=True)
        ]
        switches = packet_switches(self._testbed, self._ports)
        return replace(
            record, ranks=ranks, fibres=self._fibres(), packet_switches=switches, rates_mbit_s=self.rates_mbit_s()
        )

    def rates_mbit_s(self) -> dict[str, float]:
        """The rates of NIC ports that are known now, by port."""
        return self._rates.of(self._testbed, self._ports)

    @property
    def _ports(self) -> tuple[NicPortId, ...]:
        return *self.view.ports, *self.view.electrical

    def _electrical(self, host: str) -> list[NicPortId]:
        return [id for id in self.view.electrical if id.host == host]

    def _addresses(self, rank: int, *, optical: bool) -> dict[str, str]:
        """The addresses of a rank's NIC ports, by port, of those that have one."""
        one = self._job.ranks[rank]
        ports = self.view.ports_of(one) if optical else self._electrical(one.host)
        found = {port.id: port.ip_address for port in self._testbed.hosts[one.host].ports}
        return {id.port: address for id in sorted(ports, key=NicPortId.sort_key) if (address := found[id]) is not None}

    def _fibres(self) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {id: set() for id in self.view.ports}
        for strand in self._testbed.strands:
            for near, far in (strand.ends, strand.ends[::-1]):
                if f"{near.owner}.{near.port}" in found and far.owner in self._testbed.switches:
                    found[f"{near.owner}.{near.port}"].add(f"{far.owner}.{far.port}")
        return {port: sorted(ends, key=natural_key) for port, ends in found.items()}


def _words(ports: Iterable[NicPortId]) -> list[str]:
    return sorted(ports, key=natural_key)
