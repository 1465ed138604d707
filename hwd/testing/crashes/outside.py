"""A rack under crashes, seen from outside: the switches over their own protocol, the journal's file, the records."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.reconfiguration import EndFact, ReconfigurationEnded, ReconfigurationStarted, outcome_of
from hwd.records.records import Records
from hwd.records.records_file import file_url
from hwd_drivers.core.frames import decode_frames
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.structs import to_plain

SIZE: Final = 8
KINDS: Final = (ReconfigurationStarted, ReconfigurationEnded, DaemonRecovered, JournalGivenUp)
Light = Mapping[str, frozenset[str]]
"""The crossconnects of each switch, `1A-3B`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunReconfiguration:
    """A reconfiguration as the journal or the records have it: what it removes and adds, `ocs1:1A-3B`."""

    id: str
    removes: frozenset[str]
    adds: frozenset[str]


@dataclass(slots=True)
class Story:
    """The story of one source: begun in this order, and ended so."""

    begun: dict[str, BegunReconfiguration] = field(default_factory=dict)
    ended: dict[str, list[str]] = field(default_factory=dict)

    def end(self, id: str, outcome: str) -> None:
        self.ended.setdefault(id, []).append(outcome)


async def light(address: str) -> list[str]:
    """The crossconnects that a switch tells a client who knows nothing of hwd, each end as often as it says so."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        said = b""
        for command in (b"ACT-USER::other:1::secret;\n", b"RTRV-PATCH:::2:;\n"):
            writer.write(command)
            async with asyncio.timeout(10.0):
                said = await reader.readuntil(b";")
        pairs = re.findall(rb'"(\d+),(\d+)"', said)
    finally:
        writer.close()
        await writer.wait_closed()
    return [f"{int(one)}A-{int(other) - SIZE}B" for one, other in pairs]


def twice(crossconnects: Sequence[str]) -> list[str]:
    """The ends that are in more than one crossconnect."""
    ends = [end for one in crossconnects for end in one.split("-")]
    return sorted({end for end in ends if ends.count(end) > 1})


def read_journal(path: Path) -> Story:
    """Every begin and end whose frame is whole in the file, as a reader who knows only the frames sees it."""
    story = Story()
    for payload in decode_frames(path.read_bytes().rstrip(b"\0"), resume=b'{"entry":"').payloads:
        entry = msgspec.json.decode(payload)
        match entry["entry"]:
            case "begin":
                story.begun[entry["reconfiguration"]] = _begun(entry["reconfiguration"], entry["moves"])
            case "end":
                story.end(entry["reconfiguration"], entry["outcome"])
    return story


async def read_records(path: Path) -> Story:
    """Read the records by a connection of our own. An end with the outcome `failed` is none: the journal keeps that
    open.
    """
    with closing(Records(file_url(path), InlineOffload())) as records:
        await records.open()
        stored = await records.documents(kinds=[one.KIND for one in KINDS])
    story = Story()
    facts = sorted(stored, key=lambda one: one.document.wall_ns)
    for one in facts:
        fact = one.document.fact
        if isinstance(fact, ReconfigurationStarted):
            moves = [to_plain(move) for move in fact.moves]
            story.begun[fact.reconfiguration] = _begun(fact.reconfiguration, moves)
        elif isinstance(fact, EndFact) and outcome_of(fact) != "failed":
            story.end(fact.reconfiguration, outcome_of(fact))
    return story


def _begun(id: str, moves: Sequence[Mapping[str, Any]]) -> BegunReconfiguration:
    return BegunReconfiguration(
        id=id,
        removes=frozenset(f"{move['switch']}:{one}" for move in moves for one in move["remove"]),
        adds=frozenset(f"{move['switch']}:{one}" for move in moves for one in move["add"]),
    )
