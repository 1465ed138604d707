"""One run, as it was recorded: two hosts, two reconfigurations, in virtual time; `export/run.jsonl` is what
`hwd export` made of it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from altair.utils.schemapi import debug_mode

from hwd.model.recorded_run import Run
from hwd.report.export import read_jsonl
from hwd_drivers.core.documents import Document

Recorded = tuple[Run, tuple[Document, ...]]
HERE = Path(__file__).parent / "export"


@pytest.fixture(autouse=True)
def parts_checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Altair checks each part that it makes by its schema only where stories are drawn: it takes half of a page."""
    with debug_mode(request.path.name in ("test_cdf.py", "test_waterfall.py")):
        yield


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    with (HERE / "run.jsonl").open("rb") as lines:
        run, documents = read_jsonl(lines)
        return run, tuple(documents)
