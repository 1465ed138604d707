"""One run, as it was recorded: two hosts, two reconfigurations, in virtual time; `export/run.jsonl` is what
`hwd export` made of it.
"""

from pathlib import Path

import pytest

from hwd.model.recorded_run import Run
from hwd.report.export import read_jsonl
from hwd_drivers.core.documents import Document

Recorded = tuple[Run, tuple[Document, ...]]
HERE = Path(__file__).parent / "export"


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    with (HERE / "run.jsonl").open("rb") as lines:
        run, documents = read_jsonl(lines)
        return run, tuple(documents)
