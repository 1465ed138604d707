"""Compares the output in a page with the actual output. Values that differ from run to run (times, ids, ports) need not
be equal.
"""

import re

ANYTHING = "..."
"""A line of its own that matches any lines, or none."""

_CHANGING = re.compile(
    r"""(?P<hash>\b(?=[a-f]*\d)[0-9a-f]{12}\b)
    | (?P<moment>\d{4}-\d\d-\d\d\ \d\d:\d\d(:\d\d)? | \d\d:\d\d:\d\d(\.\d+)?)
    | (?P<id>\b(?=[a-z]*\d)[a-z0-9]{8}\b)
    | (?P<address>127\.0\.0\.1:\d+)
    | (?P<path>(?<![\w.:/])[~/][\w./~-]*/[\w.-]+)
    | (?P<unresolved>not\ resolved\ \(±\ [^)]+\))
    | (?P<number>[+-]?\d+(\.\d+)?\ (ns|[uµ]s|ms|s|min|h|ppm|dBm)\b | [+-]?\d+\.\d+)""",
    re.VERBOSE,
)
_NUMBER = r"[+-]?\d+(\.\d+)?(\ (ns|[uµ]s|ms|s|min|h|ppm|dBm)\b)?"
_UNRESOLVED = r"not\ resolved\ \(±\ [^)]+\)"
_LIKE = {
    "hash": r"[0-9a-f]{12}",
    "moment": r"[\d:. -]+",
    "id": r"[a-z0-9]{8}",
    "address": r"127\.0\.0\.1:\d+",
    "path": r"[~/]\S*",
    "unresolved": f"({_NUMBER}|{_UNRESOLVED})",
    "number": f"({_NUMBER}|{_UNRESOLVED})",
}


def difference(shown: str, seen: str) -> str:
    """Empty where `seen` matches the page; else the first difference."""
    lines = [" ".join(line.split()) for line in seen.splitlines() if line.strip()]
    at, gap = 0, False
    for line in (line for line in shown.splitlines() if line.strip()):
        if line.strip() == ANYTHING:
            gap = True
            continue
        pattern = _pattern(" ".join(line.split()))
        found = next((i for i in range(at, len(lines)) if pattern.fullmatch(lines[i])), None)
        if found is None or (found > at and not gap):
            return f"shown: {line}\nseen:  {lines[at] if at < len(lines) else 'nothing more'}"
        at, gap = found + 1, False
    return "" if at == len(lines) or gap else f"shown: nothing more\nseen:  {lines[at]}"


def _pattern(line: str) -> re.Pattern[str]:
    pattern, at = "", 0
    for found in _CHANGING.finditer(line):
        pattern += re.escape(line[at : found.start()]) + _LIKE[found.lastgroup or "number"]
        at = found.end()
    rest = re.escape(line[at:])
    if rest.endswith(r"\.\.\."):
        rest = rest.removesuffix(r"\.\.\.") + ".*"
    return re.compile(pattern + rest)
