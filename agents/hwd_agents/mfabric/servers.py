"""Servers: the GPUs of a region by server, each with the number of its rank, and those that reach the EPS."""

from functools import cached_property

import msgspec

from hwd_drivers.core.errors import ConfigError


class Servers(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The servers of a job's ranks; `ranks`: by server, one for each GPU. `eps`: by server, those ranks whose GPU has a
    NIC port on the EPS (electrical packet switch). Servers are numbered from 0 on. Raises ConfigError where the two do
    not fit.
    """

    ranks: tuple[tuple[int, ...], ...]
    eps: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.ranks or len(self.eps) != len(self.ranks):
            raise ConfigError(f"ranks of {len(self.ranks)} servers, and EPS GPUs of {len(self.eps)}")
        of: dict[int, int] = {}
        for server, ranks in enumerate(self.ranks):
            if not ranks:
                raise ConfigError(f"server {server}: has no GPU")
            for rank in ranks:
                if rank < 0:
                    raise ConfigError(f"server {server}: {rank} is no rank; they are numbered from 0 on")
                if rank in of:
                    raise ConfigError(f"rank {rank}: is at server {of[rank]} and again at server {server}")
                of[rank] = server
        for server, gateways in enumerate(self.eps):
            for rank in gateways:
                if of.get(rank) != server:
                    raise ConfigError(f"EPS GPUs of server {server}: rank {rank} is not at this server")
            if len({*gateways}) != len(gateways):
                raise ConfigError(f"EPS GPUs of server {server}: {_text(gateways)} has a rank twice")

    @cached_property
    def server_of(self) -> dict[int, int]:
        """The server of each rank."""
        return {rank: server for server, ranks in enumerate(self.ranks) for rank in ranks}


def _text(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks))
