"""What is kept of a run whose daemon was killed: that its last step did not end, and that its switches were brought back later."""

import asyncio

from hwd.cli.steps import NOT_ENDED, steps_of, switches_left
from hwd.client.kept import document_of
from hwd_drivers.kit.documents import Document

from .conftest import FIRST, InLab, Lab


def test_crashed_run_knows_that_its_switches_were_brought_back(in_lab: InLab) -> None:
    async def test(lab: Lab) -> None:
        run = await lab.start(f"apply: {{pairs: {FIRST}}}", "wait: {for: ready, within_s: 20}")
        await asyncio.sleep(0.2)
        await lab.next_life()
        await lab.world.settled()
        await asyncio.sleep(10)  # virtual: the switch is there, and brought back
        (recovered,) = lab.told("daemon.recovered")
        assert (recovered["outcome"], recovered["run"]) == ("rolled-back", run)

        async def of_run() -> list[Document]:
            return [document_of(one) async for one in await lab.service.run_documents(run)]

        documents = await lab.in_daemon(of_run())
        assert switches_left("unknown", documents).startswith("unknown at its end; brought back at ")
        assert [one.state for one in steps_of(documents, ended=True)][-1] == NOT_ENDED

    in_lab(test)
