"""Each sink gets the documents that it takes, in the order of the sinks, whatever the others do."""

import logging

import pytest

from hwd.daemon.fanout import Fanout
from hwd.model.documents.daemon import BusUp, DaemonStopped
from hwd_drivers.core.documents import Document

UP = Document(at_ns=1, wall_ns=2, fact=BusUp(address="mem:broker"))
STOPPED = Document(at_ns=3, wall_ns=4, fact=DaemonStopped(reason="asked to"))


def test_a_sink_gets_the_kinds_that_it_takes() -> None:
    everything, some = list[Document](), list[Document]()
    fanout = Fanout([everything.append])
    fanout.add(some.append, DaemonStopped)
    for document in (UP, STOPPED):
        fanout(document)
    assert everything == [UP, STOPPED]
    assert some == [STOPPED]


def test_one_sink_can_be_left_out() -> None:
    one, other = list[Document](), list[Document]()
    take = one.append
    fanout = Fanout([take, other.append])
    fanout.without(take)(UP)
    assert (one, other) == ([], [UP])


def test_a_sink_that_raises_keeps_nothing_from_the_next(caplog: pytest.LogCaptureFixture) -> None:
    def broken(document: Document) -> None:
        raise ValueError("out of order")

    took = list[Document]()
    with caplog.at_level(logging.ERROR):
        Fanout([broken, took.append])(UP)
    assert took == [UP]
    assert "a sink failed on bus.up" in caplog.text
    assert "out of order" in caplog.text
