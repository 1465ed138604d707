"""Where the links of a timeline hung: for each, the end that lacks the first instant, with its reason."""

from collections.abc import Iterator
from typing import Final

from hwd.model.hang import Hang
from hwd.model.instant import InstantName, Knowledge
from hwd.model.stage import StageName
from hwd.model.timeline import EndTimeline, Timeline
from hwd.timeline.end import NO_EVENT, NO_TRANSFER, WAS_DOWN
from hwd.timeline.port_observation import WRONG_PEER

_STAGES: Final = (
    (StageName.OPTICAL, InstantName.LIGHT),
    (StageName.FIRMWARE, InstantName.FIRMWARE),
    (StageName.CARRIER, InstantName.CARRIER),
    (StageName.RDMA, InstantName.RDMA),
    (StageName.READY, InstantName.READY),
)
"""The stages of an end in their order, each with the instant that ends it."""
_WATCHED: Final = (WAS_DOWN, NO_EVENT, NO_TRANSFER, WRONG_PEER)
"""How the reason of an unknown instant begins where its state was watched: it did not come. A recorded one has no more
than its text.
"""


def hangs(timeline: Timeline) -> Iterator[Hang]:
    """Yield a hang for each link that moved and was not ready; an instant without a source is passed over, and named.

    Nothing is said of a link of which nothing was watched.
    """
    ends: dict[str, list[EndTimeline]] = {}
    for end in timeline.ends:
        ends.setdefault(end.link, []).append(end)
    for link in timeline.links:
        if link.kept or link.instant(InstantName.READY).knowledge is Knowledge.SEEN:
            continue
        found = [hang for end in ends.get(link.link, ()) if (hang := _at_end(end)) is not None]
        if not found:
            continue
        first = min((hang.stage for hang in found), key=_order)
        there = [hang for hang in found if hang.stage is first]
        if len(there) == 1:
            yield there[0]
        else:
            whys = dict.fromkeys(hang.why for hang in there)
            yield Hang(link=link.link, end=None, stage=first, why="; ".join(whys))


def _at_end(end: EndTimeline) -> Hang | None:
    """The first stage after the last instant that is known, of those whose state was watched."""
    known = [number for number, (_, name) in enumerate(_STAGES) if _knowledge(end, name) is not Knowledge.UNKNOWN]
    unseen: list[str] = []
    for stage, name in _STAGES[max(known, default=-1) + 1 :]:
        why = end.instant(name).why
        if why.startswith(_WATCHED):
            found = why if name.value == stage.value else f"{name} {why}"
            return Hang(link=end.link, end=end.end, stage=stage, why="; ".join([found, *unseen]))
        unseen.append(f"{name} unknown: {why}")
    return None


def _knowledge(end: EndTimeline, name: InstantName) -> Knowledge:
    return end.instant(name).knowledge


def _order(stage: StageName) -> int:
    return [*StageName].index(stage)
