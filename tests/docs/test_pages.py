"""The pages of docs/, done as a reader would, but for how-tos: those are another file, for another worker."""

from pathlib import Path

import pytest

from docs.blocks.runner import run_page

from .test_blocks import QUICK, RUNNING, named

FIGURES = "docs/tutorials/a-paper-figure.md"
"""What comes out of this one is looked at, too: test_paper_figures.py."""


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    "page", [page for page in RUNNING if "how-to" not in page.parts and named(page) not in (*QUICK, FIGURES)], ids=named
)
async def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    await run_page(page, folder=tmp_path)
