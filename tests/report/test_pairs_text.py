"""Control by pairs as plain text."""

from hwd.model.instant import Origin
from hwd.report.switch_commands import PairsRow
from hwd.report.text import pairs_text


def row(pairs: int, n: int, mean_s: float, p99_s: float | None) -> PairsRow:
    return PairsRow(
        virtual_time=False, pairs=pairs, n=n, mean_s=mean_s, mean_within_s=(mean_s * 0.9, mean_s * 1.1), p99_s=p99_s,
        max_s=mean_s * 2, error_s=0.0001, origin=Origin.MEASURED,
    )  # fmt: skip


def test_each_number_of_pairs_has_a_line_under_its_headings() -> None:
    assert pairs_text([row(1, 100, 0.04, 0.06), row(16, 5, 0.05, None)]).splitlines() == [
        "control by pairs of a command",
        "pairs    n     mean    95 % interval      p99      max     bound  origin",
        "-----  ---  -------  ---------------  -------  -------  --------  -------------------",
        "    1  100  40.0 ms  36.0 to 44.0 ms  60.0 ms  80.0 ms  ± 100 µs  measured, real time",
        "   16    5  50.0 ms  45.0 to 55.0 ms        \N{EN DASH}   100 ms  ± 100 µs  measured, real time",
    ]
