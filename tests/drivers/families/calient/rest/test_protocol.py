"""Calient REST: bodies of answers in the forms that programs read, and arbitrary ones."""

import json
from pathlib import Path

import pytest

from hwd_drivers.codecs.http import HttpRequest
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.calient.rest import protocol


def captures() -> dict[str, bytes]:
    text = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8")
    rows = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: body.encode() for name, _, body in rows}


CAPTURES = captures()


def test_by_end_a_port_are_read() -> None:
    assert protocol.read_powers(CAPTURES["detail"]) == (-3.4, -4.8)


def test_connections_are_read_with_both_halves() -> None:
    one, both = protocol.read_rows(CAPTURES["list"])
    assert (one.name, one.group, one.ports, one.two_way, one.states) == (
        "1.1.1>1.2.1",
        "SYSTEM",
        ("1.1.1", "1.2.1"),
        False,
        ("IS", "IS", "OK"),
    )
    assert (both.name, both.two_way, both.states) == ("2.1.1-2.2.1", True, ("IS", "OOS", "FAIL")), "the worse half"


def test_a_list_of_names_has_no_states_and_default_names() -> None:
    (row,) = protocol.read_rows(CAPTURES["names"])
    assert (row.name, row.states) == ("1.1.1>1.2.1", None)


def test_results_stand_alone_or_under_response() -> None:
    assert [each.done for each in protocol.read_results(CAPTURES["done"], 1)] == [True]
    done, failed = protocol.read_results(CAPTURES["partly"], 2)
    assert done.done
    assert (failed.done, failed.words) == (False, "Failed: Port already in connection")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 10_000,
        b"\xff",
        b"",
        b'[{"half1":[]}]',
        b'[{"half1":{"conn":"a-b"}}]',
        b'[{"half1":{"conn":5}}]',
    ],
)
def test_bodies_that_hurt_are_protocol_errors(body: bytes) -> None:
    for reader in (
        protocol.read_rows,
        protocol.read_ports,
        protocol.read_powers,
        protocol.read_version,
        protocol.read_serial,
    ):
        with pytest.raises(ProtocolError) as found:
            reader(body)
        assert len(str(found.value)) < 500


def test_requests_have_the_bytes_of_published_programs() -> None:
    assert (
        protocol.path("crossconnects", id="detail", conn="1.1.1>1.2.1")
        == "/rest/crossconnects/?id=detail&conn=1.1.1%3E1.2.1"
    )
    wanted = [("1.1.1", "1.2.1")]
    assert json.loads(protocol.write_wanted(wanted)) == [{"in": "1.1.1", "out": "1.2.1", "dir": "uni"}]
    assert json.loads(protocol.write_wanted(wanted, group="LAB"))[0]["group"] == "LAB"
    assert json.loads(protocol.write_names([("a", ""), ("b", "LAB")])) == [{"conn": "a"}, {"conn": "b", "group": "LAB"}]


def test_a_form_and_a_query_are_the_same() -> None:
    form = HttpRequest(
        method="POST",
        path="/rest/crossconnects/",
        headers=(("content-type", "application/x-www-form-urlencoded"),),
        body=b"id=add&in=1.1.1&out=1.2.1&dir=uni",
    )
    asked = HttpRequest(method="POST", path="/rest/crossconnects/?id=add&in=1.1.1&out=1.2.1&dir=uni")
    assert (
        protocol.query(form)
        == protocol.query(asked)
        == ("crossconnects", {"id": "add", "in": "1.1.1", "out": "1.2.1", "dir": "uni"})
    )


def test_a_request_has_so_many_parameters_and_no_more() -> None:
    form = ("content-type", "application/x-www-form-urlencoded")
    for count in (64, 65):
        text = "&".join(f"p{number}=1" for number in range(count))
        for asked in (
            HttpRequest(method="GET", path=f"/rest/ports/?{text}"),
            HttpRequest(method="POST", path="/rest/ports/", headers=(form,), body=text.encode()),
        ):
            if count == 64:
                assert len(protocol.query(asked)[1]) == count
            else:
                with pytest.raises(ProtocolError, match="Max number of fields exceeded"):
                    protocol.query(asked)
