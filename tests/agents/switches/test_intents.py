"""Intents: what was begun is on the disk before it is done, and what was never told is found by the next life."""

from typing import Any

from hwd_agents.switches.intents import MARK, Intents


def test_selections_that_have_not_ended_are_known_to_the_next_process() -> None:
    marks: dict[str, dict[str, Any]] = {}
    first = Intents(marks, marks.__setitem__)
    first.begin("h0-1", {"what": 1})
    first.begin("h0-2", {"what": 2})
    assert marks == {MARK: {"h0-1": {"what": 1}, "h0-2": {"what": 2}}}
    marks |= first.end("h0-1")
    second = Intents(marks, marks.__setitem__)
    assert second.left == {"h0-2": {"what": 2}}
    second.begin("h0-3", {"what": 3})
    assert marks == {MARK: {"h0-2": {"what": 2}, "h0-3": {"what": 3}}}, (
        "a selection of this life took the place of one that is not told yet"
    )
    assert second.left == {"h0-2": {"what": 2}}
    marks |= second.end("h0-2")
    assert (second.left, marks) == ({}, {MARK: {"h0-3": {"what": 3}}})


def test_the_end_of_what_was_never_begun_writes_nothing() -> None:
    assert Intents({}, lambda name, value: None).end("h0-1") == {}
