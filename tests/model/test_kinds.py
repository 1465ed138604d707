"""Kinds of documents: how each is read from JSON, and what is passed through unread."""

import json
from typing import Any

import pytest

from hwd.model.documents.daemon import BusDown
from hwd.model.documents.hosts import HostEvent
from hwd.model.documents.reconfigurations import ReconfigurationStarted
from hwd.model.kinds import KINDS, UnreadFact, read_document, read_fact
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


def test_kinds_are_written_subject_first() -> None:
    assert all(kind == "timeline" or kind.count(".") == 1 for kind in KINDS)


def test_document_is_read_as_it_was_written() -> None:
    written = Document(at_ns=1, wall_ns=2, fact=BusDown(address="a", cause="c"))
    data = written.to_data()
    assert data == {"kind": "bus.down", "at_ns": 1, "wall_ns": 2, "data": {"address": "a", "cause": "c"}}
    assert read_document(data) == written
    assert read_fact("bus.down", json.dumps(data["data"])) == written.fact


def test_field_that_a_later_version_added_is_left_out() -> None:
    assert read_fact("bus.down", {"address": "a", "cause": "c", "more": "m"}) == BusDown(address="a", cause="c")


def test_fields_that_an_older_version_did_not_have_get_their_defaults() -> None:
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


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("bus.down", {"cause": "c"}, "address is missing"),
        ("bus.down", {"address": 7, "cause": "c"}, "address: expected str, got int"),
        ("bus.sideways", {"address": "a"}, ""),
    ],
)
def test_fact_of_another_version_is_passed_through(kind: str, data: dict[str, object], why: str) -> None:
    for fact in (read_fact(kind, data), read_fact(kind, json.dumps(data))):
        assert isinstance(fact, UnreadFact)
        assert (fact.document_kind, fact.to_data()) == (kind, data)
        assert why in fact.why
        assert bool(fact.why) == bool(why)


def test_data_of_an_event_are_a_value_of_their_type() -> None:
    fact = read_fact("host.event", EVENT)
    assert isinstance(fact, HostEvent)
    assert fact.data == CarrierData(carrier=True)
    assert fact.to_data() == EVENT


@pytest.mark.parametrize("changed", [{"type": "glow"}, {"data": {"carrier": "yes"}}])
def test_data_of_an_event_of_another_version_stay_as_they_were_sent(changed: dict[str, object]) -> None:
    fact = read_fact("host.event", {**EVENT, **changed})
    assert isinstance(fact, HostEvent)
    assert fact.to_data() == {**EVENT, **changed}


@pytest.mark.parametrize("data", ["[]", "{", "7"])
def test_text_that_is_no_json_object_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError, match=r"document bus\.down: its data is no JSON object"):
        read_fact("bus.down", data)


def test_document_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(ProtocolError, match="is no document: it lacks 'wall_ns'"):
        read_document({"kind": "bus.down", "at_ns": 1, "data": {}})


@pytest.mark.parametrize("data", ["bus.down", {"kind": ["bus.down"], "at_ns": 1, "wall_ns": 2, "data": {}}])
def test_what_is_no_document_is_refused(data: Any) -> None:
    with pytest.raises(ProtocolError, match="is no document: no JSON object"):
        read_document(data)
