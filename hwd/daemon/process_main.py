"""The frame of a process: logging, signals, event loop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine

from typing_extensions import override

from hwd_drivers.core.clock import Clock, SystemClock
from hwd_drivers.core.printable import LineFormatter

OTHERS = ("amqtt", "asyncio", "transitions", "uvicorn", "aiomqtt", "mqtt")
"""Libraries that would log a line at every step."""
BROKER = "amqtt"
BROKER_EVERY_S = 60.0
"""The least time between two log lines from one place in amqtt, which logs a trace for each unacknowledged message."""
STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP comes from a closed terminal or from a service manager that stops the process: it is no reload."""


def run_until_stopped(main: Coroutine[None, None, None]) -> None:
    """Run `main` to its end. A signal of `STOP` cancels it, except SIGHUP under `nohup`.

    That cancellation is no error; an exception that `main` raises meanwhile is.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where whoever started us ignores it, ends of children are unknown
    asyncio.run(_until_stopped(main))


async def _until_stopped(main: Coroutine[None, None, None]) -> None:
    task = asyncio.create_task(main, name="hwd:main")
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:  # a second signal must not cut short what makes the optics safe
            stopped = True
            task.cancel()

    loop = asyncio.get_running_loop()
    under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [number for number in STOP if not (number is signal.SIGHUP and under_nohup)]
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        await asyncio.wait([task])
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    if not (stopped and task.cancelled()):
        task.result()


def log_to_stderr(*, verbose: bool) -> None:
    """Set up logging. `verbose`: also DEBUG, libraries and task names; without it only errors of libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_task)
    if not verbose:
        handler.addFilter(Seldom(SystemClock()))
    task = "%(task)s" if verbose else ""
    handler.setFormatter(LineFormatter(f"%(asctime)s %(levelname)-7s {task}%(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
    for name in OTHERS:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.ERROR)


class Seldom(logging.Filter):
    """Limits each place in the broker's library to one line in `BROKER_EVERY_S`: clients can provoke such lines."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._said_s: dict[tuple[str, int], float] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record now; removes its trace."""
        if record.name.partition(".")[0] != BROKER:
            return True
        place, now_s = (record.pathname, record.lineno), self._clock.monotonic_ns() / 1e9
        if now_s - self._said_s.get(place, float("-inf")) < BROKER_EVERY_S:
            return False
        self._said_s[place] = now_s
        if record.exc_info and record.exc_info[1] is not None:
            record.msg, record.args = f"{record.getMessage()} ({record.exc_info[1]!r})", None
        record.exc_info = record.exc_text = None
        return True


def _add_task(record: logging.LogRecord) -> bool:
    """Put `ocs1/supervisor: ` before the log lines of the task `hwd:ocs1/supervisor`."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    name = task.get_name() if task is not None else ""
    record.task = f"{name.removeprefix('hwd:')}: " if name.startswith("hwd:") and name != "hwd:main" else ""
    return True
