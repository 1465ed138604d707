"""Calient REST without I/O: requests, and the JSON of the answers.

Paths and field names as published programs for real units use them (README.md names each). Answers are read tolerantly:
numbers may be text, results may be under `response`, unknown fields are ignored. All readers raise ProtocolError on
JSON of another form.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from hwd_drivers.codecs.http import HttpRequest, shorten_body
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ProtocolError

DEFAULT_PORT: Final = 80
BASE: Final = "/rest/"
JSON_TYPE: Final = "application/json"
RESULT_DONE: Final = "1"
RESULT_FAILED: Final = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The unit's result for one item of a change."""

    done: bool
    message: str
    description: str

    @property
    def words(self) -> str:
        return ": ".join(filter(None, (self.message, self.description))) or "no reason given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One connection of the list.

    `ports`: source and destination. `states`: AS, OS and OC of the half in the worse state; None where the unit does
    not report them here.
    """

    name: str
    group: str
    two_way: bool
    ports: tuple[str, str]
    states: tuple[str, str, str] | None


WELL: Final = ("IS", "IS", "OK")


def path(what: str, **parameters: str) -> str:
    """`/rest/crossconnects/?id=detail&conn=1.1.1%3E1.1.2`"""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"{BASE}{what}/" + (f"?{query}" if query else "")


def write_wanted(ports: Iterable[tuple[str, str]], *, group: str = "") -> bytes:
    """The body of `badd`: one-way connections, by source and destination; the unit chooses an empty group."""
    more = {"group": group} if group else {}
    return dump([{"in": source, "out": destination, "dir": "uni"} | more for source, destination in ports])


def write_names(names: Sequence[tuple[str, str]]) -> bytes:
    """The body of `bdel`, from names and groups; an empty group is left out."""
    return dump([{"conn": name} | ({"group": group} if group else {}) for name, group in names])


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def load(body: bytes) -> Any:
    """Any JSON value."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{shorten_body(body)} is not JSON: {error}") from None


def read_results(body: bytes, count: int) -> tuple[Result, ...]:
    """The results, one for each item of the change. A single failure for several items refuses the whole change."""
    items = _list(load(body))
    results = tuple(map(_result, items))
    if len(results) == 1 and not results[0].done:
        return results * count
    if len(results) != count:
        raise ProtocolError(f"results: {len(results)}, items asked for: {count}: {shorten_body(body)}")
    return results


def read_ports(body: bytes) -> tuple[str, ...]:
    """Names of the ports of `ports/?id=summary`."""
    return tuple(_text(row, "port") for row in map(_object, _list(load(body))))


def read_powers(body: bytes) -> tuple[float | None, float | None]:
    """Powers of the IN and the OUT fibre of `ports/?id=detail`; None where there is no light."""
    rows = _list(load(body))
    if len(rows) != 1:
        raise ProtocolError(f"{len(rows)} rows for one port: {shorten_body(body)}")
    row = _object(rows[0])
    return _power(_text(row, "inpower")), _power(_text(row, "outpower"))


def read_rows(body: bytes) -> tuple[Row, ...]:
    """Connections of `crossconnects/?id=list`, or the one of `?id=detail`, with or without a list around it."""
    value = load(body)
    return tuple(_row(_object(item)) for item in (_list(value) if isinstance(value, list) else [value]))


def read_version(body: bytes) -> str:
    """The version in `info/?id=softwareversion`."""
    return _text(_first(load(body)), "version")


def read_serial(body: bytes) -> tuple[str, str]:
    """Serial number and part number of `node/?id=summary&detail=SYSCFG`."""
    row = _first(load(body))
    inner = row.get("nodeSysConfigInfo")
    row = inner if isinstance(inner, dict) else row
    return _text(row, "serialnumber"), _text(row, "partnumber")


def query(request: HttpRequest) -> tuple[str, dict[str, str]]:
    """The resource (`crossconnects`), and the parameters of the query and of a form.

    Raises ProtocolError outside `/rest/`.
    """
    target, _, text = request.path.partition("?")
    if not target.startswith(BASE):
        raise ProtocolError(f"{shorten(target)}: not below {BASE}")
    try:
        parameters = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=64))
        if request.header("content-type").startswith("application/x-www-form-urlencoded"):
            parameters |= parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=64)
    except ValueError as error:
        raise ProtocolError(f"{shorten(request.path)}: {error}") from None
    return target.removeprefix(BASE).strip("/"), parameters


_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_CONN = re.compile(r"[^\s<>]+>[^\s<>]+")


def _list(value: Any) -> list[Any]:
    if isinstance(value, dict):  # a single result may come without a list
        return [value]
    if not isinstance(value, list):
        raise ProtocolError(f"{shorten(repr(value))} is not a list")
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"{shorten(repr(value))} is not an object")
    return value


def _first(value: Any) -> Mapping[str, Any]:
    rows = _list(value)
    if not rows:
        raise ProtocolError("an empty list, one object is needed")
    return _object(rows[0])


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ProtocolError(f"{shorten(repr(row))}: {name} is {shorten(repr(value))}")
    return str(value).strip()


def _result(item: Any) -> Result:
    row = _object(item)
    row = _object(row["response"]) if "response" in row else row
    status = _text(row, "status")
    if status not in (RESULT_DONE, RESULT_FAILED):
        raise ProtocolError(f"result {shorten(repr(row))}: status is neither 1 nor 0")
    return Result(
        done=status == RESULT_DONE, message=str(row.get("msg") or ""), description=str(row.get("description") or "")
    )


def _row(row: Mapping[str, Any]) -> Row:
    halves = [_object(row[key]) for key in ("half1", "half2") if row.get(key) and _object(row[key]).get("conn")]
    if not halves:
        raise ProtocolError(f"connection {shorten(repr(row))}: no half1 with its conn")
    conns = [_text(half, "conn") for half in halves]
    for conn in conns:
        if not _CONN.fullmatch(conn):
            raise ProtocolError(f"conn {shorten(conn)}: not in>out")
    source, destination = conns[0].split(">")
    two_way = len(halves) == 2
    default = f"{source}-{destination}" if two_way else conns[0]
    return Row(
        name=str(row.get("name") or row.get("connid") or default),
        group=str(row.get("group") or ""),
        two_way=two_way,
        ports=(source, destination),
        states=_states(halves),
    )


def _states(halves: Sequence[Mapping[str, Any]]) -> tuple[str, str, str] | None:
    """The states of the half that failed, or else is not in service; None where one half has not all of them."""
    states = [(str(half.get("as") or ""), str(half.get("os") or ""), str(half.get("oc") or "")) for half in halves]
    if not all(map(all, states)):
        return None
    bad = [each for each in states if each != WELL]
    return next((each for each in states if each[2] == "FAIL"), (bad or states)[0])


def _power(text: str) -> float | None:
    if text.upper() in ("", "NONE", "N/A"):
        return None
    if not _DECIMAL.fullmatch(text):
        raise ProtocolError(f"{shorten(text)} is not a power in dBm")
    return float(text)
