"""Saves the documents, report, status, logs and testbed of a test that failed.

A part that cannot be read is replaced by a file that says why.
"""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from hwd.model.recorded_run import Run, RunOutcome
from hwd.report.export import jsonl
from hwd.report.run_report import of_documents
from hwd.testing.lab import Lab
from hwd.testing.process import tail
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.output_file import write_file
from hwd_drivers.core.structs import to_plain

NAME_MAX = 120
"""Characters of a folder's name; file systems allow 255."""


def keep(lab: Lab, top: Path, why: str) -> str:
    """Write everything into a folder of the test's name under `top`; returns the text for pytest's report."""
    folder = top / folder_name(lab.test)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write(folder / "status.json", lambda: json.dumps(to_plain(lab.status()), indent=2))
    _write(folder / "documents.jsonl", lambda: _documents(lab, why))
    _write(folder / "report.html", lambda: _report(lab, why))
    if lab.running.testbed is not None:
        shutil.copy(lab.running.testbed, folder / "testbed.yaml")
    for log in lab.running.logs:
        shutil.copy(log, folder / log.name)
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    words = [f"{log.name}:\n{tail(log)}" for log in lab.running.logs]
    return "\n".join([f"{folder}: {names}", *words])


def folder_name(test: str) -> str:
    """`tests/test_x.py::test_y[1]` without characters that file systems refuse."""
    return re.sub(r"[^\w.-]+", "-", test).strip("-.")[-NAME_MAX:]


def _write(path: Path, make: Callable[[], str]) -> None:
    try:
        text = make()
    except HwdError as error:
        text = f"cannot be read: {error.title}: {error}\n"
    write_file(path, text)


def _report(lab: Lab, why: str) -> str:
    from hwd.report.page.html import html  # a third of a second, for a test that failed only

    return html([of_documents(*_run(lab, why))])


def _documents(lab: Lab, why: str) -> str:
    """The documents in the format of `hwd export --as jsonl`."""
    file = io.BytesIO()
    jsonl(*_run(lab, why), file)
    return file.getvalue().decode()


def _run(lab: Lab, why: str) -> tuple[Run, tuple[Document, ...]]:
    """The test as if it had been a run, with all documents since its beginning."""
    documents = lab.documents().documents
    now_ns = SystemClock().wall_ns()
    status = lab.status()
    run = Run(
        id=lab.test,
        playbook="test",
        testbed=status.testbed,
        version=status.version,
        started_wall_ns=documents[0].wall_ns if documents else now_ns,
        ended_wall_ns=now_ns,
        testbed_text="" if lab.running.testbed is None else lab.running.testbed.read_text(encoding="utf-8"),
        inventory={"switches": to_plain(status.switches), "hosts": to_plain(status.hosts)},
        outcome=RunOutcome.FAILED,
        why=why,
    )
    return run, documents
