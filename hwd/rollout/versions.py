"""Compares two versions of hwd."""

import re


def is_newer(one: str, than: str) -> bool:
    """Whether a version is newer than another by their numbers, such as 0.10.1; False where either has none that can be
    compared.
    """
    ours, other = _numbers(one), _numbers(than)
    return bool(ours and other) and ours > other


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version, re.ASCII)
    return () if found is None else tuple(int(part) for part in found[0].split("."))
