"""What libraries say in the log of the daemon."""

import logging

import pytest

from hwd.daemon.process_main import Seldom, log_to_stderr
from hwd_drivers.core.clock import SystemClock


def said_by(name: str) -> None:
    try:
        raise TimeoutError("no PUBACK for packet 3")
    except TimeoutError:
        logging.getLogger(name).exception("Task failed")


def test_a_library_speaks_once_in_a_while_without_traces_and_we_always(capfd: pytest.CaptureFixture[str]) -> None:
    root, kept = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    try:
        log_to_stderr(verbose=False)
        for _ in range(3):
            said_by("amqtt.broker")
        for _ in range(2):
            logging.getLogger("hwd.test").error("ours")
    finally:
        root.handlers[:] = kept
        root.setLevel(level)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition("ERROR   ")[2] for line in lines] == [
        "Task failed (TimeoutError('no PUBACK for packet 3'))",
        "ours",
        "ours",
    ]


def test_another_place_of_a_library_is_heard() -> None:
    seldom = Seldom(SystemClock())
    records = [logging.LogRecord("amqtt", logging.ERROR, "a.py", line, "said", None, None) for line in (1, 2, 1)]
    assert [seldom.filter(record) for record in records] == [True, True, False]
