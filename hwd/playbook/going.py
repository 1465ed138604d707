"""A run that goes on, seen to its end: a run of which nothing can be recorded any more is stopped, and has failed as such."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable

from hwd.playbook.runner import RunEnd, Runner
from hwd.records.recorder import RecordingSink
from hwd.records.run import RunOutcome
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError

STOPPED_BY = "the records, which cannot be written"

log = logging.getLogger(__name__)


async def to_end(runner: Runner, recorder: RecordingSink) -> RunEnd:
    """Do all of it; how it ended, records included: what is not all on the disk has not succeeded."""
    return await _held(await _go(runner, recorder), runner.id, recorder)


async def keep_end(
    run: str,
    end: RunEnd,
    last: Callable[[RunEnd], tuple[Document, ...]],
    *,
    ended_wall_ns: int,
    recorder: RecordingSink,
) -> tuple[Document, ...]:
    """Put the last documents of a run into the records, then how it ended, and return those documents for everybody else.

    Whoever is told finds it in the records, and reads the same there. `last(end)` makes them; where even they cannot be held, the run has failed.
    """
    documents = last(end)
    for document in documents:
        recorder(document)
    held = await _held(end, run, recorder)
    if held != end:
        documents = last(held)
        for document in documents:
            recorder(document)
    try:
        await recorder.end_run(
            run, outcome=held.outcome, why=held.why, safe_state=held.safe_state, ended_wall_ns=ended_wall_ns
        )
    except HwdError as error:
        log.error("run %s: ended as %s, but the records could not take all of it: %s", run, held.outcome, error)
    return documents


async def _held(end: RunEnd, run: str, recorder: RecordingSink) -> RunEnd:
    """The same, or that it failed, since not all of it is held."""
    failure = await recorder.held(run)
    if failure is None or (end.outcome is RunOutcome.FAILED and str(failure) in end.why):
        return end
    why = f"{end.why}; {failure}" if end.why else f"{failure.title}: {failure}"
    return dataclasses.replace(end, outcome=RunOutcome.FAILED, why=why, fault=end.fault or failure)


async def _go(runner: Runner, recorder: RecordingSink) -> RunEnd:
    going = asyncio.create_task(runner.go(), name=f"hwd:run/{runner.id}/go")
    watching = asyncio.create_task(recorder.lasting_failure(), name=f"hwd:run/{runner.id}/records")
    try:
        await asyncio.wait([going, watching], return_when=asyncio.FIRST_COMPLETED)
        if going.done():
            return going.result()
        failure = watching.result()
        log.error("run %s: is stopped: %s", runner.id, failure)
        runner.abort(STOPPED_BY)
        end = await going
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    why = f"{failure.title}: {failure}"
    return dataclasses.replace(end, outcome=RunOutcome.FAILED, why=why, fault=failure)
