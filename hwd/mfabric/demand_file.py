"""A file of demand, CSV or NPZ, as matrices of hosts: what is uploaded, and what is said beside it.

found = read_demand(data, DemandTerms(hosts=("h0", "h1"), experts_per_gpu=1, gpus_per_server=8), known=testbed.hosts)
found.matrices[3, 0]        # bytes in layer 3, micro-batch 0: from found.hosts to found.hosts
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwd.mfabric.demand import server_demand
from hwd.mfabric.demand_csv import CsvDemand, read_csv
from hwd.mfabric.demand_npz import is_npz, read_npz
from hwd.model.demand import CELLS_MAX, EXPERTS_MAX, HOSTS_MAX, STORED_BYTES_MAX
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandTerms:
    """The terms of a demand file. `hosts`: the servers, in their order; empty where the file names hosts.

    `experts_per_gpu`, `gpus_per_server`: both where the file is of experts, which are numbered GPU by GPU and server by
    server; else none. Raises ConfigError where they contradict each other.
    """

    hosts: tuple[str, ...] = ()
    experts_per_gpu: int | None = None
    gpus_per_server: int | None = None

    def __post_init__(self) -> None:
        if len({*self.hosts}) < len(self.hosts):
            raise ConfigError("hosts: one is named twice")
        if (self.experts_per_gpu is None) != (self.gpus_per_server is None):
            raise ConfigError("experts_per_gpu, gpus_per_server: demand of experts needs both, demand of hosts none")
        given = [number for number in (self.experts_per_gpu, self.gpus_per_server) if number is not None]
        if min(given, default=1) < 1 or self.each > EXPERTS_MAX:
            raise ConfigError(
                f"experts_per_gpu, gpus_per_server: are at least 1, and experts at most {EXPERTS_MAX} in all"
            )
        if self.is_of_experts and not self.hosts:
            raise ConfigError("hosts: demand of experts needs the hosts of its servers, in their order: hosts=h0,h1")

    @property
    def is_of_experts(self) -> bool:
        return self.experts_per_gpu is not None

    @property
    def each(self) -> int:
        """Experts of a server; 1 where the file is of hosts."""
        return (self.experts_per_gpu or 1) * (self.gpus_per_server or 1)

    @property
    def what(self) -> str:
        """`experts` or `hosts`."""
        return "experts" if self.is_of_experts else "hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDemand:
    """Demand of hosts, in bytes from row to column, by layer and micro-batch; what stays in a host is 0.

    `experts`: how many the file was of; None where it was of hosts.
    """

    hosts: tuple[str, ...]
    experts: int | None
    matrices: Mapping[tuple[int, int], NDArray[np.float64]]


def read_demand(data: bytes, terms: DemandTerms, *, known: Collection[str]) -> FileDemand:
    """Raises ConfigError with the place of what is wrong. `known`: hosts of the testbed."""
    _check_known(terms.hosts, known)
    if is_npz(data):
        if not terms.hosts:
            raise ConfigError("hosts: NPZ names no hosts; name them in the order of its rows: hosts=h0,h1")
        return _demand(read_npz(data), terms.hosts, terms)
    table = read_csv(data)
    hosts, places = _places(table, terms, known)
    size = len(hosts) * terms.each
    return _demand(((key, _moved(one, places, size)) for key, one in table.matrices.items()), hosts, terms)


def _demand(
    found: Iterable[tuple[tuple[int, int], NDArray[np.float64]]], hosts: tuple[str, ...], terms: DemandTerms
) -> FileDemand:
    size, matrices = len(hosts) * terms.each, dict[tuple[int, int], NDArray[np.float64]]()
    if not 1 < len(hosts) <= HOSTS_MAX or size > EXPERTS_MAX:
        raise ConfigError(f"hosts: {_said(hosts, terms)}; a demand has 2 to {HOSTS_MAX}, at most {EXPERTS_MAX} experts")
    for key, matrix in found:
        where = f"layer {key[0]}, micro-batch {key[1]}"
        if key in matrices:
            raise ConfigError(f"{where}: is there twice")
        if matrix.shape[0] != size:
            raise ConfigError(f"{where}: is {matrix.shape[0]} x {matrix.shape[0]}, and {_said(hosts, terms)}")
        if (len(matrices) + 1) * size**2 > CELLS_MAX or (len(matrices) + 1) * len(hosts) ** 2 * 8 > STORED_BYTES_MAX:
            raise ConfigError(
                f"{where}: beyond the {CELLS_MAX} numbers of one file, or the {STORED_BYTES_MAX >> 20} MiB of one "
                "demand; add it in parts"
            )
        matrices[key] = server_demand(
            matrix, experts_per_gpu=terms.experts_per_gpu or 1, gpus_per_server=terms.gpus_per_server or 1
        )
    if not matrices:
        raise ConfigError("the file: has no matrix")
    return FileDemand(hosts=hosts, experts=size if terms.is_of_experts else None, matrices=matrices)


def _places(table: CsvDemand, terms: DemandTerms, known: Collection[str]) -> tuple[tuple[str, ...], list[int]]:
    """The hosts, and the number of each name of the file: among these, or among their experts."""
    names, hosts = table.names, terms.hosts
    if not terms.is_of_experts and (not hosts or any(name in known for name in names)):
        _check_known(names, known)
        hosts = hosts or names
        if strange := [name for name in names if name not in hosts]:
            raise ConfigError(f"CSV: {strange[0]} is not among the named hosts; leave hosts=... out, or name it there")
        place = {host: number for number, host in enumerate(hosts)}
        return hosts, [place[name] for name in names]
    if len(names) != len(hosts) * terms.each and not table.is_list:
        raise ConfigError(f"CSV: has {len(names)} {terms.what}, and {_said(hosts, terms)}")
    if all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
        places = [*map(int, names)]
        if max(places) >= len(hosts) * terms.each:
            raise ConfigError(f"CSV: {max(places)} is no number of {terms.what} from 0 on: {_said(hosts, terms)}")
        return hosts, places
    if table.is_list:
        strange = [name for name in names if not name.isdigit()]
        raise ConfigError(f"CSV: {(strange or names)[0]!r}: write {terms.what} as numbers from 0 on, or hosts by name")
    return hosts, [*range(len(names))]


def _moved(matrix: NDArray[np.float64], places: Sequence[int], size: int) -> NDArray[np.float64]:
    found = np.zeros((size, size))
    found[np.ix_(places, places)] = matrix
    return found


def _check_known(hosts: Iterable[str], known: Collection[str]) -> None:
    for host in hosts:
        if host not in known:
            raise ConfigError(f"no host {host!r}; the testbed has {', '.join(known)}")


def _said(hosts: Sequence[str], terms: DemandTerms) -> str:
    if not terms.is_of_experts:
        return "1 host is named" if len(hosts) == 1 else f"{plural(len(hosts), 'host')} are named"
    return (
        f"{plural(len(hosts), 'host')} of {plural(terms.gpus_per_server or 1, 'GPU')} with "
        f"{plural(terms.experts_per_gpu or 1, 'expert')} each have {plural(len(hosts) * terms.each, 'expert')}"
    )
