"""Messages between a daemon and the process of a plane, a line of JSON each: what a plane sees, is told, and answers.

The daemon says `Begin` first. It answers `AskedTopology` with `Links` or `NoLinks`; once it has `Declared`, it sends
events. The process says `Kind`, then `Declared`, then one `Answer` for each event, in their order. `Broken` is the last
thing that it says.
"""

from collections.abc import Callable, Generator
from typing import Final

from msgspec import Struct

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Job, PortView, Target, View
from hwd.model.plane_json import NamedAction
from hwd.model.ranks import CommunicationGroup, Rank
from hwd.planes.breach import Breach, PlaneError
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.printable import printable

LINE_BYTES_MOST: Final = 64 << 20
"""4096 targets of 256 links each are some of these."""
TOPOLOGIES_MOST: Final = 4096
"""Topologies that one plane asks for."""
SHOWN_MOST: Final = 200
"""Characters of a message that is none, in an error."""


class Begin(Struct, frozen=True, kw_only=True, tag=True):
    """Make the plane `plane` for a job, with what it sees of the rack. Without `job` it is made, and asked for nothing;
    without `arguments` it is loaded, and not made.
    """

    plane: str
    arguments: dict[str, str] | None
    job: str = ""
    ranks: tuple[Rank, ...] = ()
    groups: dict[str, CommunicationGroup] = {}
    ports: dict[NicPortId, PortView] = {}
    electrical: dict[NicPortId, PortView] = {}
    ends: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plane: str, arguments: dict[str, str], job: Job, view: View) -> "Begin":
        return cls(
            plane=plane,
            arguments=arguments,
            job=job.id,
            ranks=job.ranks,
            groups=dict(job.groups),
            ports=dict(view.ports),
            electrical=dict(view.electrical),
            ends=view.ends,
        )


class Links(Struct, frozen=True, kw_only=True, tag=True):
    """The links of the topology that was asked for."""

    links: tuple[Link, ...]


class NoLinks(Struct, frozen=True, kw_only=True, tag=True):
    """Why there are none: the text of the ConfigError."""

    why: str


class Kind(Struct, frozen=True, kw_only=True, tag=True):
    """The declaration of the package of a plane: a `hwd.model.plane.PlaneKind` without what makes it."""

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
"""The messages of the process."""


def conversation(
    topology: Callable[[str], tuple[Link, ...]],
) -> Generator[Links | NoLinks | None, Said, tuple[Kind, dict[str, Target]]]:
    """What is said between `Begin` and the first event: takes what the process says, and yields what it is answered,
    None where that is nothing. Returns what the plane declares, for no job no targets. Raises PlaneError, and
    ConfigError where the plane is not there, or does not take its arguments or these hosts.
    """
    kind = yield None
    if not isinstance(kind, Kind):
        raise not_an_answer(kind)
    answer: Links | NoLinks | None = None
    for _ in range(TOPOLOGIES_MOST + 1):
        said = yield answer
        match said:
            case Declared(targets=targets):
                return kind, targets
            case AskedTopology(text=text):
                try:
                    answer = Links(links=topology(text))
                except HwdError as error:
                    answer = NoLinks(why=str(error))
            case _:
                raise not_an_answer(said)
    raise PlaneError(Breach.TOO_MUCH, f"it asks for over {TOPOLOGIES_MOST} topologies")


def not_an_answer(said: Said) -> HwdError:
    """What to raise for a message that is no answer: why the plane is broken, or that this is none."""
    if not isinstance(said, Broken):
        return PlaneError(Breach.NO_ACTION, f"it says {printable(repr(said), SHOWN_MOST)} where that is no answer")
    try:
        return PlaneError(Breach(said.breach), said.what) if said.breach else ConfigError(said.what)
    except ValueError:
        return PlaneError(Breach.NO_ACTION, f"it says {printable(repr(said), SHOWN_MOST)}")
