"""Polatis over RESTCONF (RFC 8040) without I/O: paths, and the JSON of requests and answers.

Paths as published programs for real units use them; names as in the vendor's YANG module optical-switch (README.md has
both sources). Ports are the unit's own numbers here. Numbers are accepted as numbers and as text: RFC 7951 writes
decimals as text, and which form units use is not known. All readers raise ProtocolError.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hwd_drivers.codecs.http import shorten_body
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Identity
from hwd_drivers.families.polatis.netconf.protocol import VOA_MODES, to_level
from hwd_drivers.families.polatis.settings import VoaSetting

DEFAULT_PORT: Final = 8008
DATA: Final = "/api/data/"
OPERATIONS: Final = "/api/operations/"
MODULE: Final = "optical-switch"
CROSS_CONNECTS: Final = f"{DATA}{MODULE}:cross-connects"
PRODUCT: Final = f"{DATA}{MODULE}:product-information"
PORT_CONFIG: Final = f"{DATA}{MODULE}:port-config"
OPM_POWER: Final = f"{DATA}{MODULE}:opm-power"
VOA: Final = f"{DATA}{MODULE}:voa"
SET_STATE: Final = f"{OPERATIONS}{MODULE}:port-set-state"
JSON_TYPE: Final = "application/yang-data+json"
XML_TYPE: Final = "application/yang-data+xml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One error of an answer; `tag` is one of RFC 8040, section 7."""

    tag: str
    message: str
    path: str = ""

    @property
    def words(self) -> str:
        return " ".join(filter(None, (self.tag, self.message and f"({self.message})", self.path and f"at {self.path}")))


def pair_path(ingress: int) -> str:
    return f"{CROSS_CONNECTS}/pair={ingress}"


def write_pair(ingress: int, egress: int) -> bytes:
    """Body of PUT for one pair."""
    return dump({f"{MODULE}:pair": [{"ingress": ingress, "egress": egress}]})


def write_pairs(pairs: Sequence[tuple[int, int]]) -> bytes:
    """Body of PATCH for the container."""
    return dump({f"{MODULE}:cross-connects": {"pair": [{"ingress": one, "egress": other} for one, other in pairs]}})


def write_states(word: str, ports: Sequence[int]) -> bytes:
    """Body of POST for port-set-state; `word` is port-enab or port-disab.

    `input` has no module prefix, as in published programs.
    """
    return dump({"input": {word: list(ports)}})


def write_voa(settings: Iterable[tuple[int, VoaSetting]]) -> bytes:
    """Body of PATCH for the container."""
    ports = []
    for port, setting in settings:
        entry: dict[str, object] = {"port-id": port, "atten-mode": VOA_MODES[setting.mode]}
        if setting.level is not None:
            entry["atten-level"] = f"{to_level(setting.mode, setting.level):.2f}"
        if setting.reference is not None:
            entry["reference-port"] = setting.reference
        ports.append(entry)
    return dump({f"{MODULE}:voa": {"port": ports}})


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def load(body: bytes) -> Any:
    """Any JSON value."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{shorten_body(body)} is not JSON: {error}") from None


def read_product(body: bytes) -> Identity:
    found = _container(body, "product-information")
    return Identity(
        vendor=_text(found, "manufacturer"),
        model=_text(found, "model-name"),
        serial=_text(found, "serial-number"),
        firmware=_text(found, "software-version"),
    )


def read_pairs(body: bytes) -> tuple[tuple[int, int], ...]:
    """Input and output of all crossconnects; old modules call the list `pairs`."""
    found = _container(body, "cross-connects")
    key = "pairs" if "pairs" in found else "pair"
    return tuple((_port(pair, "ingress"), _port(pair, "egress")) for pair in _entries(found, key))


def read_statuses(body: bytes) -> dict[int, str]:
    """Status of each port, such as ENABLED; empty where the unit reports none."""
    ports = _entries(_container(body, "port-config"), "port")
    return {_port(each, "port-id"): str(each.get("status") or "") for each in ports}


def read_powers(body: bytes) -> dict[int, float]:
    ports = _entries(_container(body, "opm-power"), "port")
    return {_port(each, "port-id"): _decimal(each, "power") for each in ports}


def read_voa(body: bytes) -> dict[int, VoaSetting]:
    settings = {}
    for each in _entries(_container(body, "voa"), "port"):
        word = _text(each, "atten-mode")
        mode = next((mode for mode, text in VOA_MODES.items() if text == word), None)
        if mode is None:
            raise ProtocolError(f"atten-mode {shorten(word)}: unknown")
        port = _port(each, "port-id")
        settings[port] = VoaSetting(
            mode=mode,
            level=to_level(mode, _decimal(each, "atten-level")) if each.get("atten-level") not in (None, "") else None,
            reference=_port(each, "reference-port") if each.get("reference-port") not in (None, "", 0, "0") else None,
        )
    return settings


def read_failures(body: bytes) -> tuple[Failure, ...]:
    """Errors of RFC 8040, section 7.1; empty for any other body, which is allowed."""
    try:
        value = load(body)
    except ProtocolError:
        return ()
    if not isinstance(value, dict):
        return ()
    errors = value.get("ietf-restconf:errors") or value.get("errors")
    listed = errors.get("error") if isinstance(errors, dict) else None
    if not isinstance(listed, list):
        return ()
    return tuple(
        Failure(
            tag=str(each.get("error-tag") or ""),
            message=str(each.get("error-message") or ""),
            path=str(each.get("error-path") or ""),
        )
        for each in listed
        if isinstance(each, dict)
    )


_DECIMAL = re.compile(r"[+-]?[0-9]{1,6}(?:\.[0-9]{1,9})?")
_NUMBER = re.compile(r"[0-9]{1,5}")


def _container(body: bytes, name: str) -> Mapping[str, Any]:
    value = load(body)
    found = value.get(f"{MODULE}:{name}", value.get(name)) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise ProtocolError(f"no {name} in {shorten_body(body)}")
    return found


def _entries(container: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    entries = container.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ProtocolError(f"{name} in {shorten(repr(container))} is not a list of objects")
    return entries


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ProtocolError(f"{name} is {shorten(repr(value))}")
    return value.strip()


def _port(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    text = value.strip() if isinstance(value, str) else str(value) if type(value) is int else ""
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= 65535:
        raise ProtocolError(f"{name} is {shorten(repr(value))}, not a port")
    return int(text)


def _decimal(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    text = value.strip() if isinstance(value, str) else repr(value) if type(value) in (int, float) else ""
    if not _DECIMAL.fullmatch(text):
        raise ProtocolError(f"{name} is {shorten(repr(value))}, not a decimal")
    return float(text)
