"""Epochs and intents: which lease is in force, and what was never told, over the lives of an agent."""

from typing import Any

import pytest

from hwd_agents.switches.epochs import Epochs
from hwd_agents.switches.intents import MARK, Intents
from hwd_drivers.core.errors import RefusedError

NAMES = ("sel0", "sel1")


def made(marks: dict[str, dict[str, Any]]) -> Epochs:
    return Epochs(NAMES, dict(marks), marks.__setitem__)


def test_a_grant_is_durable_before_it_counts_and_ends_with_the_process_of_the_agent() -> None:
    marks: dict[str, dict[str, Any]] = {}
    epochs = made(marks)
    assert (epochs.granted("sel0"), epochs.last("sel0")) == (None, 0)
    with pytest.raises(RefusedError, match="sel0: this host may not set it now: it was never granted"):
        epochs.check("sel0", None)
    epochs.grant("sel0", 7)
    assert marks == {"epoch:sel0": {"epoch": 7, "taken_back": None}}
    assert (epochs.check("sel0", 7), epochs.check("sel0", None), epochs.why_not("sel0")) == (7, 7, "")
    with pytest.raises(RefusedError, match="epoch 6 is not in force, epoch 7 is"):
        epochs.check("sel0", 6)
    after = made(marks)
    assert (after.granted("sel0"), after.last("sel0")) == (None, 7)
    with pytest.raises(RefusedError, match="epoch 7 ended with the agent before this one"):
        after.check("sel0", 7)
    with pytest.raises(RefusedError, match="epoch 7 is over, 7 is known already"):
        after.grant("sel0", 7)
    after.grant("sel0", 8)
    assert after.check("sel0", 8) == 8


def test_a_taken_lease_stays_taken_after_a_restart_and_is_of_one_switch_only() -> None:
    marks: dict[str, dict[str, Any]] = {}
    epochs = made(marks)
    epochs.grant("sel0", 1)
    epochs.grant("sel1", 4)
    epochs.take_back("sel0", 1, "ada has taken it back")
    for one in (epochs, made(marks)):
        with pytest.raises(RefusedError, match="may not set it now: ada has taken it back"):
            one.check("sel0", None)
    assert epochs.check("sel1", 4) == 4


def test_a_take_back_that_comes_late_does_not_end_a_later_grant() -> None:
    epochs = made({})
    epochs.grant("sel0", 3)
    with pytest.raises(RefusedError, match="epoch 2 is over, 3 was granted meanwhile"):
        epochs.take_back("sel0", 2, "too late")
    assert epochs.check("sel0", 3) == 3
    with pytest.raises(RefusedError, match="sel7: no switch of this agent's file; there are sel0, sel1"):
        epochs.grant("sel7", 1)


def test_a_disk_that_fails_grants_nothing_and_what_is_taken_back_is_over_all_the_same() -> None:
    full = False

    def keep(name: str, mark: dict[str, Any]) -> None:
        if full:
            raise OSError("no room")

    epochs = Epochs(NAMES, {}, keep)
    epochs.grant("sel0", 4)
    full = True
    with pytest.raises(OSError, match="no room"):
        epochs.grant("sel1", 1)
    assert epochs.granted("sel1") is None
    with pytest.raises(OSError, match="no room"):
        epochs.take_back("sel0", 4, "ada has taken it back")
    with pytest.raises(RefusedError, match="ada has taken it back"):
        epochs.check("sel0", None)


# --- intents: what was begun is on the disk before it is done


def test_selections_that_have_not_ended_are_known_to_the_next_process() -> None:
    marks: dict[str, dict[str, Any]] = {}
    first = Intents(marks, marks.__setitem__)
    first.begin("h0-1", {"what": 1})
    first.begin("h0-2", {"what": 2})
    assert marks == {MARK: {"h0-1": {"what": 1}, "h0-2": {"what": 2}}}
    marks |= first.end("h0-1")
    second = Intents(marks, marks.__setitem__)
    assert second.unreported_selections == {"h0-2": {"what": 2}}
    second.begin("h0-3", {"what": 3})
    assert marks == {MARK: {"h0-2": {"what": 2}, "h0-3": {"what": 3}}}, (
        "a selection of this life took the place of one that is not told yet"
    )
    assert second.unreported_selections == {"h0-2": {"what": 2}}
    marks |= second.end("h0-2")
    assert (second.unreported_selections, marks) == ({}, {MARK: {"h0-3": {"what": 3}}})


def test_the_end_of_what_was_never_begun_writes_nothing() -> None:
    assert Intents({}, lambda name, value: None).end("h0-1") == {}
