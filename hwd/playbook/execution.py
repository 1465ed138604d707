"""The execution of a run: all its steps and the record of its end. Without records it is stopped and fails."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable

from hwd.model.recorded_run import RunOutcome
from hwd.playbook.runner import RunEnd, Runner, why_failed
from hwd.records.recorder import RecordingSink
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError

STOPPED_BY = "the records, which cannot be written"

log = logging.getLogger(__name__)


async def execute(runner: Runner, recorder: RecordingSink) -> RunEnd:
    """Execute a run; returns its end. A run whose documents are not all on the disk has failed."""
    run = asyncio.create_task(runner.go(), name=f"hwd:run/{runner.id}/go")
    failure = asyncio.create_task(recorder.lasting_failure(), name=f"hwd:run/{runner.id}/records")
    try:
        await asyncio.wait([run, failure], return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            cause = failure.result()
            log.error("run %s: is stopped: %s", runner.id, cause)
            runner.abort(STOPPED_BY)
            why = why_failed(cause)
            end = dataclasses.replace(await run, outcome=RunOutcome.FAILED, why=why, fault=cause)
        else:
            end = run.result()
    finally:
        failure.cancel()
        await asyncio.wait([failure])
    return await _recorded(end, runner.id, recorder)


async def record_end(
    run: str,
    end: RunEnd,
    last: Callable[[RunEnd], tuple[Document, ...]],
    *,
    ended_wall_ns: int,
    recorder: RecordingSink,
) -> tuple[Document, ...]:
    """Record the last documents of a run and its end, and return the documents, to be announced afterwards.

    So whoever gets them finds the same in the records. `last(end)` makes them; if they cannot be recorded, the run has
    failed, and they are made again.
    """
    documents = last(end)
    for document in documents:
        recorder(document)
    recorded = await _recorded(end, run, recorder)
    if recorded != end:
        documents = last(recorded)
        for document in documents:
            recorder(document)
    try:
        await recorder.end_run(
            run, outcome=recorded.outcome, why=recorded.why, safe_state=recorded.safe_state, ended_wall_ns=ended_wall_ns
        )
    except HwdError as error:
        log.error("run %s: ended as %s, but the records could not take all of it: %s", run, recorded.outcome, error)
    return documents


async def _recorded(end: RunEnd, run: str, recorder: RecordingSink) -> RunEnd:
    """`end`, or a failure where not all documents of the run are recorded."""
    failure = await recorder.why_not_on_disk(run)
    if failure is None or (end.outcome is RunOutcome.FAILED and str(failure) in end.why):
        return end
    why = f"{end.why}; {failure}" if end.why else why_failed(failure)
    return dataclasses.replace(end, outcome=RunOutcome.FAILED, why=why, fault=end.fault or failure)
