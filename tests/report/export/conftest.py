"""One run, as it was recorded: two hosts, two reconfigurations, in virtual time; `run.jsonl` is what `hwd export` made
of it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hwd.model.kinds import read_fact
from hwd.model.recorded_run import Run
from hwd.report.export import read_jsonl
from hwd_drivers.core.documents import Document

Recorded = tuple[Run, tuple[Document, ...]]


@pytest.fixture
def here() -> Path:
    return Path(__file__).parent


@pytest.fixture
def recorded(here: Path) -> Recorded:
    with (here / "run.jsonl").open("rb") as lines:
        run, documents = read_jsonl(lines)
        return run, tuple(documents)


@pytest.fixture
def broken_off(recorded: Recorded) -> Recorded:
    """The same until the daemon died under the second reconfiguration: commanded, some events seen, no
    timeline, no end.
    """
    run, documents = recorded
    second = [index for index, one in enumerate(documents) if one.kind == "reconfiguration.commanded"][1]
    return run, documents[: second + 9]


@pytest.fixture
def changed(recorded: Recorded) -> Callable[[str, str], Recorded]:
    """The same with one text for another, wherever it stands."""

    def made(old: str, new: str) -> Recorded:
        run, documents = recorded

        def swap(value: object) -> object:
            match value:
                case str():
                    return value.replace(old, new)
                case dict():
                    return {swap(key): swap(part) for key, part in value.items()}
                case list():
                    return [swap(part) for part in value]
            return value

        return run, tuple(
            replace(one, fact=read_fact(one.kind, cast(dict[str, Any], swap(one.fact.to_data())))) for one in documents
        )

    return made
