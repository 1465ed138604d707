"""The declarations of planes, for callers without an event loop, who wait. The code of another package runs in a
process of its own, which is gone after that; that of hwd itself runs here.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

from hwd.config.planes import installed
from hwd.config.planes.process import PlaneProcess
from hwd.model.plane import Job, Target, View
from hwd.planes.guest import targets_of

T = TypeVar("T")


def arguments_of(name: str) -> tuple[str, ...]:
    """The names of the arguments that a plane takes. Raises ConfigError where it is not installed or cannot be loaded,
    and PlaneError where its package does not let itself be loaded in time.
    """
    if installed.is_own(name):
        return installed.find(name).arguments
    return _asked(name, {}, PlaneProcess.declared_arguments)


def try_arguments(name: str, arguments: Mapping[str, str]) -> None:
    """Raises ConfigError where a plane does not take these values, and PlaneError where it breaks."""
    if installed.is_own(name):
        installed.make(name, arguments)
    else:
        _asked(name, arguments, PlaneProcess.make)


def targets_for(name: str, arguments: Mapping[str, str], job: Job, view: View) -> Mapping[str, Target]:
    """The targets that a plane declares for a job. Raises what `PlaneRunner.begin` raises."""
    if installed.is_own(name):
        return targets_of(installed.make(name, arguments), job, view)
    return _asked(name, arguments, lambda process: process.begin(job, view))


def _asked(name: str, arguments: Mapping[str, str], ask: Callable[[PlaneProcess], Coroutine[None, None, T]]) -> T:
    async def answer() -> T:
        process = PlaneProcess(name, arguments)
        try:
            return await ask(process)
        finally:
            await process.close()

    return asyncio.run(answer())
