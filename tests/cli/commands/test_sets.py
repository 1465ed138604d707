"""`hwd prepare`, `switch`, `sets`, `release`: what they take and what they print."""

from pathlib import Path

import pytest

from hwd.cli.commands.sets import _overriding, _targets, show_sets
from hwd.cli.output import Output
from hwd.model.answers import PreparedSetStatus, SetTarget
from hwd_drivers.core.errors import ConfigError


def made(**more: object) -> PreparedSetStatus:
    fields: dict[str, object] = {
        "prepared_set": "p7x2a1b9",
        "lease": "k3v9a1xx",
        "holder": "ada",
        "rule": "finish",
        "at": "day",
        "why": "",
        "switching": None,
        "targets": [SetTarget(target=name, what="", crossconnects=[], links=[]) for name in ("before", "day")],
        "ports": ["ocs1.1", "ocs1.2"],
        "expires_in_s": None,
    }
    return PreparedSetStatus(**{**fields, **more})  # type: ignore[arg-type]


def test_a_set_is_a_line_with_what_is_in_its_way(capsys: pytest.CaptureFixture[str]) -> None:
    show_sets(Output(json=False), [made(), made(prepared_set="q8", at=None, why="ocs1: no answer", expires_in_s=60.0)])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "set at targets after a crash lease ends holds",
        "p7x2a1b9 day before, day finish k3v9a1xx with its lease 2 ports",
        "q8 no target before, day finish k3v9a1xx 60 s 2 ports",
        "set q8: ocs1: no answer",
    ]


def test_no_set_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_sets(Output(json=False), [])
    assert capsys.readouterr().out == "no prepared sets\n"


def test_targets_are_words_and_files(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text("links: []\n")
    assert _targets(["day=ring hosts=h0,h1 rail=0", f"night={file}"]) == {
        "day": "ring hosts=h0,h1 rail=0",
        "night": (str(file), "links: []\n"),
    }


@pytest.mark.parametrize(
    ("texts", "why"),
    [(["day"], "write it as NAME=WHAT"), (["ring hosts=h0,h1"], "write it as"), (["a=x", "a=y"], "two of that name")],
)
def test_what_is_no_target_is_said(texts: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        _targets(texts)


def test_override_of_a_job_has_a_reason() -> None:
    assert _overriding(None) == {}
    assert _overriding("job=measures the loss") == _overriding("measures the loss") == {"job": "measures the loss"}
    for text in ("", "job=", "job=  "):
        with pytest.raises(ConfigError, match="write it as job=WHY"):
            _overriding(text)
