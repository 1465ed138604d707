"""GroupChoice: which group of its job a process group of PyTorch is, and over which NIC port its connections go."""

from collections.abc import Mapping, Sequence
from typing import Final

from hwd_agents.pytorch import GroupOptions
from hwd_agents.wire import RankPlace
from hwd_drivers.core.errors import ConfigError

MESH: Final = "mesh_"
"""Before the name of a dimension, in what init_device_mesh calls a group."""
LOOPBACK: Final = "lo"


class GroupChoice:
    """The choice of the group of a job for the process group of these `ranks`, in rank `number` of a job. `port`: empty
    where it has no way.

    Raises ConfigError for a group that the job does not have where the program names one, and for a rank that has no
    address to send from.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        options: GroupOptions,
        *,
        job: str,
        number: int,
        places: Sequence[RankPlace],
        groups: Mapping[str, Sequence[int]],
    ) -> None:
        self._ranks = tuple(ranks)
        self._job = job
        self._groups = groups
        self._is_local = len({places[one].host for one in ranks}) == 1
        self._is_electrical = options.over == "electrical"
        self._names = [name for name, members in groups.items() if {*members} == {*ranks}]
        if options.group is not None:
            if options.group not in self._names:
                raise ConfigError(f"{options.group!r} is no group of ranks {_listed(ranks)}: {self._known()}")
            self._names = [options.group]
        if self._is_electrical:
            self._names = []
        self.port = LOOPBACK if self._is_local else self._port(places[number]) if self.has_way else ""
        if self.has_way and not self.port:
            raise ConfigError(f"rank {number} of job {job}: has no address to send from: give its NIC ports an `ip`")

    @property
    def has_way(self) -> bool:
        """Whether somebody has named a way, or it needs none: none is taken silently."""
        return bool(self._names) or self._is_local or self._is_electrical

    @property
    def any_name(self) -> str:
        """The name of a group of the job that the process group may be; empty for none, which announces nothing."""
        return self._names[0] if self._names else ""

    def name(self, group: str, described: str) -> str:
        """The group that it is, `described` as PyTorch does once it has made `group`; empty where it announces nothing.
        Raises ConfigError where it may be several, and where it has no way.
        """
        if len(self._names) > 1:
            dimension = described.removeprefix(MESH)
            named = [one for one in self._names if one == dimension or one.removeprefix(dimension).isdigit()]
            if len(named) != 1:
                raise ConfigError(
                    f"process group {group} ({described}): {', '.join(self._names)} of job {self._job} all have its "
                    "ranks: say which one it is by the name of its mesh dimension, or by "
                    "pg_options=hwd_agents.pytorch.GroupOptions(group=...)"
                )
            self._names = named
        if not self.has_way:
            raise ConfigError(f"process group {group}: {self._known()}")
        return self.any_name

    def _port(self, place: RankPlace) -> str:
        """The first one over light, where it is a group of the job and there is one; else over packet switches."""
        over_light = next(iter(place.optical), "") if self._names else ""
        return over_light or next(iter(place.electrical), "")

    def _known(self) -> str:
        if self._names:
            return f"job {self._job} has {', '.join(self._names)} of these ranks"
        known = ", ".join(f"{name} ({_listed(members)})" for name, members in self._groups.items())
        return (
            f"job {self._job} has no group of ranks {_listed(self._ranks)}; it has {known}. Declare it under `groups` "
            "of the job, or let it send over packet switches by "
            "pg_options=hwd_agents.pytorch.GroupOptions(over='electrical')"
        )


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
