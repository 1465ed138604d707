"""Marks that are kept on a real file, also where its disk has become full or the last of them is torn."""

import contextlib
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.spool.told_marks import SLOT_BYTES, SLOTS, ToldMarks


def keep(folder: Path, *marks: dict[str, dict[str, Any]], clock_name: str = "c") -> dict[str, dict[str, Any]]:
    """What was there, and keeps these."""
    with contextlib.closing(ToldMarks(folder / "told", clock_name=clock_name)) as told:
        before = dict(told.marks)
        for each in marks:
            told.keep(each)
    return before


def test_all_that_was_kept_is_there_for_later_lives_by_the_same_clock(tmp_path: Path) -> None:
    assert keep(tmp_path, {"link:a": {"changes": 1}}, {"link:b": {"changes": 2}}, {"link:a": {"changes": 3}}) == {}
    both = {"link:a": {"changes": 3}, "link:b": {"changes": 2}}
    assert keep(tmp_path) == both
    assert (tmp_path / "told").stat().st_size == SLOTS * SLOT_BYTES
    assert keep(tmp_path, clock_name="another") == {}
    assert keep(tmp_path, clock_name="") == {}


@given(at=st.integers(0, SLOTS * SLOT_BYTES), data=st.binary(min_size=1, max_size=9))
def test_damage_leaves_the_last_or_the_one_before_or_none(
    tmp_path_factory: pytest.TempPathFactory, at: int, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("told")
    kept = [{"link:a": {"changes": number}} for number in range(1, 4)]
    keep(folder, *kept)
    with (folder / "told").open("r+b") as file:
        file.seek(at)
        file.write(data)
    assert keep(folder, {"link:a": {"changes": 9}}) in kept[1:]
    assert keep(folder) == {"link:a": {"changes": 9}}


def test_too_many_are_said_and_the_last_that_fitted_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        keep(tmp_path, {"link:a": {"changes": 1}}, {f"link:{n}": {"changes": n} for n in range(1000)})
    assert "cannot keep 1001 marks" in caplog.text
    assert keep(tmp_path) == {"link:a": {"changes": 1}}


def test_a_full_disk_keeps_them_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "hwd-test", tmp_path], check=True)
    try:
        keep(tmp_path)
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "fill").write_bytes(bytes(1 << 20))
        with caplog.at_level(logging.WARNING):
            for number in range(3):
                keep(tmp_path, {"link:a": {"changes": number, "why": "x" * 3000}})
        assert (keep(tmp_path)["link:a"]["changes"], caplog.messages) == (2, [])
        (tmp_path / "told").unlink()
        (tmp_path / "more").write_bytes(bytes(4096))
        with pytest.raises(OSError, match="No space left"):
            keep(tmp_path)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
