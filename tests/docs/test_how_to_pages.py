"""The how-tos of docs/, done as a reader would."""

from pathlib import Path

import pytest

from docs.blocks.runner import run_page

from .test_blocks import QUICK, RUNNING, named


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    "page", [page for page in RUNNING if "how-to" in page.parts and named(page) not in QUICK], ids=named
)
async def test_a_how_to_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    await run_page(page, folder=tmp_path)
