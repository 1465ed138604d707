"""`hwd trial` on what it refuses before anything runs; the pages of docs/ run one on a live rack."""

from collections.abc import Callable
from typing import Any

import pytest

Hwd = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("smoke",), "name two playbooks, A and B; or a trial of the records: --again TRIAL"),
        ((), "name two playbooks, A and B"),
        (("smoke", "smoke", "--metric", "speed"), "--metric speed: there are control, optical, "),
        (("smoke", "smoke", "--until", "soon"), "--until soon: write `decided`, or a number of pairs"),
        (("smoke within_s", "smoke"), "smoke within_s: write parameters as name=value, not within_s"),
        (
            ("smoke", "smoek"),
            "smoek: no such file here, and none of that name among the playbooks of hwd; did you mean smoke?",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(hwd: Hwd, words: tuple[str, ...], why: str) -> None:
    said = hwd("trial", *words)
    assert said.status == 2
    assert why in said.err
