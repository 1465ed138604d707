"""From a process's start to its end: logging, signals, the event loop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine

OTHERS = ("amqtt", "asyncio", "transitions", "uvicorn", "aiomqtt", "mqtt")
"""Libraries whose every step would be a line."""


def run_until_stopped(main: Coroutine[None, None, None]) -> None:
    """Run `main` to its end. SIGTERM and SIGINT cancel it; that it then ends is no error, what it raises meanwhile is."""
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
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await asyncio.wait([task])
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    if not (stopped and task.cancelled()):
        task.result()


def log_to_stderr(*, verbose: bool) -> None:
    """Messages say whom they are about. With `verbose` DEBUG, libraries, and the name of the task that says it; without, errors only of libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_task)
    task = "%(task)s" if verbose else ""
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {task}%(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
    for name in OTHERS:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.ERROR)


def _add_task(record: logging.LogRecord) -> bool:
    """`ocs1/supervisor: ` before what the task `hwd:ocs1/supervisor` says."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    name = task.get_name() if task is not None else ""
    record.task = f"{name.removeprefix('hwd:')}: " if name.startswith("hwd:") and name != "hwd:main" else ""
    return True
