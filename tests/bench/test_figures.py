"""The sweeps behind figures of papers: what they print holds by itself; and each measure runs."""

import subprocess
import sys

import pytest

from bench import figures
from bench.__main__ import MEASURES
from bench.progress import Progress

WITHIN_S = 300.0


def first(cell: str) -> float:
    return float(cell.split()[0])


def test_prices_are_those_of_the_paper_at_400_gbit_s() -> None:
    head, *rows = figures.costs(Progress())
    assert head == ("Gbit/s", "fat tree", "mFabric", "ratio", "the paper says")
    ratios = {row[0]: first(row[3]) for row in rows}
    assert ratios == {"100": 1.45, "200": 1.77, "400": 2.3, "800": 2.34}
    assert sum(ratios.values()) / 4 == pytest.approx(1.965)


def test_no_links_are_better_than_the_best_and_none_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "DRAWS", 3)
    _, *rows = figures.optical_degree(Progress())
    assert [row[0] for row in rows] == [str(degree) for degree in range(1, 8)]
    for _, ours, least, bound, _ in rows:
        assert first(ours) >= first(least) >= first(bound)


def test_stop_leaves_ports_dark_that_skip_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "DRAWS", 4)
    _, *rows = figures.dark_ports(Progress())
    assert all(first(stop) > 5 > first(skip) for _, stop, skip in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.timeout(WITHIN_S + 30)
def test_measure_runs_to_its_end_whatever_it_finds(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", name],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    if "left out" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode in (0, 1), done.stderr
    assert f"{name}: on " in done.stdout, done.stderr
