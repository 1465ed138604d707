"""Two hosts for two ends of a link."""

from collections.abc import AsyncIterator

import pytest

from ..conftest import Stage, stage


@pytest.fixture
async def one(virtual_time: None) -> AsyncIterator[Stage]:
    """With hosts `h0` and `h1`."""
    async with stage("h0", "h1") as one:
        yield one
