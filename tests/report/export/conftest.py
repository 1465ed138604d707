"""The recorded run as it might have been: broken off, and with other texts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from hwd.model.kinds import read_fact

from ..conftest import Recorded


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
