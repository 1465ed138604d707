"""Polatis over RESTCONF without I/O: bodies in the forms of units and programs, and arbitrary ones, on both sides."""

import json
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import AttenuationMode, Identity
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.protocol import OPSW
from hwd_drivers.families.polatis.restconf import protocol, resources
from hwd_drivers.families.polatis.settings import VoaSetting

from .....answers import check_golden


def captures() -> dict[str, bytes]:
    text = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8")
    rows = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: body.encode() for name, _, body in rows}


CAPTURES = captures()


@pytest.mark.parametrize("name", ["container", "plain", "old"])
def test_crossconnects_are_read_in_all_their_forms(name: str) -> None:
    assert protocol.read_pairs(CAPTURES[name]) == ((1, 9), (2, 10))


def test_powers_are_numbers_or_text() -> None:
    assert protocol.read_powers(CAPTURES["power"]) == {9: -3.21, 10: -50.0}


def test_the_product_is_read() -> None:
    assert protocol.read_product(CAPTURES["product"]) == Identity(
        vendor="Polatis", model="N-OST-8x8-LA1-DMHNS", serial="1234", firmware="6.7.3.9"
    )


def test_errors_are_read_and_other_bodies_have_none() -> None:
    (failure,) = protocol.read_failures(CAPTURES["errors"])
    assert failure.words == "invalid-value (Invalid OXC port: 99) at /cross-connects/pair"
    for body in (b"", b"<html>", b"[]", b'{"errors":[]}', b'{"errors":{"error":[1]}}'):
        assert protocol.read_failures(body) == ()


def test_requests_are_as_in_published_programs() -> None:
    assert protocol.pair_path(7) == "/api/data/optical-switch:cross-connects/pair=7"
    assert json.loads(protocol.write_pair(1, 9)) == json.loads(CAPTURES["put-json"])
    assert json.loads(protocol.write_states("port-disab", [1, 2])) == {"input": {"port-disab": [1, 2]}}
    setting = VoaSetting(mode=AttenuationMode.ABSOLUTE, level=-3.0)
    assert protocol.read_voa(protocol.write_voa([(9, setting)])) == {9: setting}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("put-xml", protocol.XML_TYPE), ("put-json", protocol.JSON_TYPE), ("put-xml", ""), ("put-json", "")],
)
def test_a_body_is_the_same_in_xml_and_json_and_without_a_type(name: str, kind: str) -> None:
    (pair,) = resources.read_body(CAPTURES[name], kind, "pair", OPSW)
    assert (pair.tag, [xml.text(leaf) for leaf in pair]) == (f"{{{OPSW}}}pair", ["1", "9"])


def test_json_and_xml_of_the_same_data_come_back() -> None:
    (container,) = resources.read_body(CAPTURES["container"], protocol.JSON_TYPE, "cross-connects", OPSW)
    assert resources.write_json([container]) == (
        b'{"optical-switch:cross-connects":{"pair":[{"ingress":1,"egress":9},{"ingress":2,"egress":10}]}}'
    )
    (again,) = resources.read_body(resources.write_xml([container]), protocol.XML_TYPE, "cross-connects", OPSW)
    assert resources.write_json([again]) == resources.write_json([container])
    assert (
        resources.write_json(list(container))
        == b'{"optical-switch:pair":[{"ingress":1,"egress":9},{"ingress":2,"egress":10}]}'
    )
    assert resources.write_xml(list(container)).startswith(
        b'<data xmlns="urn:ietf:params:xml:ns:yang:ietf-restconf"><pair xmlns="http'
    )


def test_bodies_that_hurt_are_protocol_errors() -> None:
    told = []
    for body in (
        b"", b"  ", b"[]", b"{}", b'{"pair":{"a b":1}}', b'{"pair":{"other:x":1}}', b"<pair>", b"<other/>", b"\xff",
        b'{"pair":' + b'{"a":' * 40 + b"1" + b"}" * 41, b'{"pair":' * 100_000,
        b'<!DOCTYPE a [<!ENTITY b "c">]><pair>&b;</pair>',
    ):  # fmt: skip
        for kind in (protocol.XML_TYPE, protocol.JSON_TYPE, ""):
            with pytest.raises(ProtocolError) as found:
                resources.read_body(body, kind, "pair", OPSW)
            told.append(
                f"{body[:60]!r} {kind or 'without a type'}: {str(found.value).partition(' while decoding')[0]}\n"
            )
    check_golden(Path(__file__).with_name("bodies.txt"), "".join(told))
