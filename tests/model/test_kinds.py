"""Kinds of documents: how each is read from JSON, and what is passed through unread."""

import json
from typing import Any

import pytest

from hwd.model.daemon import BusDown
from hwd.model.host import HostEvent
from hwd.model.kinds import KINDS, UnreadFact, read_document, read_fact
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd_agents.wire.events import CarrierData
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ProtocolError

EVENT = {
    "host": "h0",
    "boot": "b1",
    "seq": 7,
    "type": "carrier",
    "port": "eth0",
    "earliest_ns": 1,
    "latest_ns": 3,
    "best_ns": 2,
    "agent_ns": 2,
    "origin": "kernel",
    "source": "netlink",
    "sampling_ns": 0,
    "past": False,
    "data": {"carrier": True},
}


def test_document_is_read_as_it_was_written() -> None:
    assert all(kind == "timeline" or kind.count(".") == 1 for kind in KINDS), "kinds are written subject first"
    written = Document(at_ns=1, wall_ns=2, fact=BusDown(address="a", cause="c"))
    data = written.to_data()
    assert data == {"kind": "bus.down", "at_ns": 1, "wall_ns": 2, "data": {"address": "a", "cause": "c"}}
    assert read_document(data) == written
    assert read_fact("bus.down", json.dumps(data["data"])) == written.fact
    event = read_fact("host.event", EVENT)
    assert isinstance(event, HostEvent)
    assert event.data == CarrierData(carrier=True)
    assert event.to_data() == EVENT


def test_field_that_a_later_version_added_is_left_out_and_those_that_an_older_one_lacks_get_their_defaults() -> None:
    assert read_fact("bus.down", {"address": "a", "cause": "c", "more": "m"}) == BusDown(address="a", cause="c")
    older: dict[str, object] = {
        "reconfiguration": "r1",
        "run": None,
        "hash": "0",
        "what": "ring",
        "links": [],
        "moves": [],
    }
    fact = read_fact("reconfiguration.started", older)
    assert isinstance(fact, ReconfigurationStarted)
    assert (fact.sweep, fact.settings) == ({}, {})
    assert fact.to_data() == {**older, "sweep": {}, "settings": {}}, "what is UNSET stays away"


def test_fact_of_another_version_is_passed_through() -> None:
    unread: list[tuple[str, dict[str, object], str]] = [
        ("bus.down", {"cause": "c"}, "address is missing"),
        ("bus.down", {"address": 7, "cause": "c"}, "address: expected str, got int"),
        ("bus.sideways", {"address": "a"}, ""),
    ]
    for kind, data, why in unread:
        for fact in (read_fact(kind, data), read_fact(kind, json.dumps(data))):
            assert isinstance(fact, UnreadFact)
            assert (fact.document_kind, fact.to_data()) == (kind, data)
            assert why in fact.why
            assert bool(fact.why) == bool(why)
    for changed in ({"type": "glow"}, {"data": {"carrier": "yes"}}):
        event = read_fact("host.event", {**EVENT, **changed})
        assert isinstance(event, HostEvent)
        assert event.to_data() == {**EVENT, **changed}


def test_what_is_no_document_is_refused() -> None:
    for text in ("[]", "{", "7"):
        with pytest.raises(ProtocolError, match=r"document bus\.down: its data is no JSON object"):
            read_fact("bus.down", text)
    with pytest.raises(ProtocolError, match="is no document: it lacks 'wall_ns'"):
        read_document({"kind": "bus.down", "at_ns": 1, "data": {}})
    strange: list[Any] = ["bus.down", {"kind": ["bus.down"], "at_ns": 1, "wall_ns": 2, "data": {}}]
    for data in strange:
        with pytest.raises(ProtocolError, match="is no document: no JSON object"):
            read_document(data)
