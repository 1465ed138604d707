"""A run that goes on, seen to its end: a run of which nothing can be recorded any more is stopped, and has failed as such."""

import asyncio
import dataclasses
import logging

from hwd.playbook.runner import RunEnd, Runner
from hwd.records.recorder import RecordingSink
from hwd.records.run import RunOutcome

STOPPED_BY = "the records, which cannot be written"

log = logging.getLogger(__name__)


async def to_end(runner: Runner, recorder: RecordingSink) -> RunEnd:
    """Do all of it; how it ended, records included: what is not all on the disk has not succeeded."""
    end = await _go(runner, recorder)
    failure = await recorder.held(runner.id)
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
