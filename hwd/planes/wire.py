"""Messages between a daemon and the process of a plane, a line of JSON each: what a plane sees, is told, and answers.

The daemon says `Begin` first. It answers `AskedTopology` with `Links` or `NoLinks`; once it has `Declared`, it sends
events. The process says `Kind`, then `Declared`, then one `Answer` for each event, in their order. `Broken` is the last
thing that it says.
"""

from typing import Final

from msgspec import Struct

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import PortView, Target
from hwd.model.plane_json import NamedAction
from hwd.model.ranks import CommunicationGroup, Rank

LINE_BYTES_MOST: Final = 64 << 20
"""4096 targets of 256 links each are some of these."""


class Begin(Struct, frozen=True, kw_only=True, tag=True):
    """Make the plane `plane` for a job, with what it sees of the rack; without `job` its kind is all that is asked."""

    plane: str
    arguments: dict[str, str]
    job: str = ""
    ranks: tuple[Rank, ...] = ()
    groups: dict[str, CommunicationGroup] = {}
    ports: dict[NicPortId, PortView] = {}
    electrical: dict[NicPortId, PortView] = {}
    ends: frozenset[str] = frozenset()


class Links(Struct, frozen=True, kw_only=True, tag=True):
    """The links of the topology that was asked for."""

    links: tuple[Link, ...]


class NoLinks(Struct, frozen=True, kw_only=True, tag=True):
    """Why there are none: the text of the ConfigError."""

    why: str


class Kind(Struct, frozen=True, kw_only=True, tag=True):
    """What the package of the plane declares, as `hwd.model.plane.PlaneKind` does."""

    arguments: tuple[str, ...]
    demand_s: float | None


class AskedTopology(Struct, frozen=True, kw_only=True, tag=True):
    """A call of `view.topology`."""

    text: str


class Declared(Struct, frozen=True, kw_only=True, tag=True):
    """The targets of the plane."""

    targets: dict[str, Target]


class Answer(Struct, frozen=True, kw_only=True, tag=True):
    """The actions for one event."""

    actions: tuple[NamedAction, ...]


class Broken(Struct, frozen=True, kw_only=True, tag=True):
    """Why the plane cannot go on. `breach`: the rule that it broke; empty where it takes no such argument, or not these
    hosts, which is no fault of it.
    """

    breach: str
    what: str


Said = Kind | AskedTopology | Declared | Answer | Broken
"""By the process."""
