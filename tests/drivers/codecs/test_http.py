"""HTTP without I/O: round trips at every cut, limits, and arbitrary bytes from both sides."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.codecs.http import (
    BODY_LIMIT_BYTES,
    HEAD_LIMIT_BYTES,
    ClientWire,
    HttpRequest,
    HttpResponse,
    ServerWire,
    basic,
    phrase,
)
from hwd_drivers.core.errors import BugError, ProtocolError

from ...answers import check_answers

GET = HttpRequest(method="GET", path="/rest/ports/?id=detail&port=3.3.1")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\nSet-Cookie: a=1\r\n\r\n[{}]"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[{\r\n2;x=y\r\n}]\r\n0\r\n\r\n"
POST = (
    b"POST /rest/crossconnects/?id=add HTTP/1.1\r\nHost: 10.0.0.5\r\nAuthorization: Basic YWRtaW46cGFzczp3b3Jk\r\n"
    b"Cookie: a=1; b=2\r\nContent-Length: 4\r\n\r\n[{}]"
)


def asking() -> ClientWire:
    wire = ClientWire(host="10.0.0.5")
    wire.encode(GET)
    return wire


@pytest.mark.parametrize("capture", [ANSWER, CHUNKED])
def test_an_answer_is_the_same_wherever_it_is_cut(capture: bytes) -> None:
    for cut in range(len(capture) + 1):
        wire = asking()
        responses = wire.feed(capture[:cut]) if cut else []
        responses += wire.feed(capture[cut:]) if cut < len(capture) else []
        assert [(each.status, each.body) for each in responses] == [(200, b"[{}]")]
        assert wire.reusable


def test_an_answer_comes_bytewise() -> None:
    wire = asking()
    responses = [response for byte in ANSWER for response in wire.feed(bytes([byte]))]
    assert responses == [
        HttpResponse(
            status=200,
            headers=(("content-type", "application/json"), ("content-length", "4"), ("set-cookie", "a=1")),
            body=b"[{}]",
        )
    ]


def test_an_early_hint_is_no_answer_and_one_without_a_length_ends_with_the_stream() -> None:
    wire = asking()
    assert wire.feed(b"HTTP/1.1 103 Early Hints\r\n\r\n") == []
    assert [response.status for response in wire.feed(b"HTTP/1.1 204 No Content\r\n\r\n")] == [204]
    wire = asking()
    assert wire.feed(b"HTTP/1.0 200 OK\r\n\r\n[{") == []
    assert wire.feed(b"}]") == []
    (response,) = wire.feed(b"")
    assert response.body == b"[{}]"
    assert not wire.reusable


@pytest.mark.parametrize("data", [ANSWER + b"x", ANSWER + ANSWER])
def test_bytes_after_the_answer_are_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"without a request|more bytes after the answer"):
        asking().feed(data)


def test_bytes_before_a_request_and_an_end_in_the_middle_are_errors() -> None:
    with pytest.raises(ProtocolError, match=r"without a request|more bytes after the answer"):
        ClientWire(host="x").feed(ANSWER)
    wire = asking()
    wire.feed(ANSWER[:-1])
    with pytest.raises(ProtocolError, match="HTTP answer"):
        wire.feed(b"")


def test_a_second_request_before_the_answer_and_a_path_with_a_line_feed_are_bugs() -> None:
    with pytest.raises(BugError, match="GET"):
        asking().encode(GET)
    with pytest.raises(BugError):
        ClientWire(host="x").encode(HttpRequest(method="GET", path="/a\r\nb"))


def test_heads_and_bodies_have_a_limit_on_both_sides_and_so_have_requests_without_an_answer() -> None:
    client = ClientWire(host="x", body_limit_bytes=3)
    client.encode(GET)
    with pytest.raises(ProtocolError, match="over 3 bytes"):
        client.feed(ANSWER)
    server = ServerWire(body_limit_bytes=3)
    server.feed(POST)
    with pytest.raises(ProtocolError, match="over 3 bytes"):
        server.next_request()
    assert not server.over, "it can still be told"
    client = asking()
    with pytest.raises(ProtocolError):
        client.feed(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (HEAD_LIMIT_BYTES + 1))
    server = ServerWire()
    server.feed(b"GET / HTTP/1.1\r\nX: " + b"x" * (HEAD_LIMIT_BYTES + 1))
    with pytest.raises(ProtocolError):
        server.next_request()
    server = ServerWire()
    server.feed(POST)
    assert server.next_request() is not None
    with pytest.raises(ProtocolError, match="before an answer"):
        for _ in range((BODY_LIMIT_BYTES + HEAD_LIMIT_BYTES) // 100_000 + 1):
            server.feed(b"x" * 100_000)
            assert server.next_request() is None


def test_a_request_is_the_same_wherever_it_is_cut() -> None:
    for cut in range(len(POST) + 1):
        wire = ServerWire()
        found = []
        for part in (POST[:cut], POST[cut:]):
            if part:
                wire.feed(part)
                found.append(wire.next_request())
        requests = [request for request in found if request is not None]
        assert [(each.method, each.path, each.body) for each in requests] == [
            ("POST", "/rest/crossconnects/?id=add", b"[{}]")
        ]
        assert requests[0].basic == ("admin", "pass:word")
        assert requests[0].cookies == {"a": "1", "b": "2"}


def path_of(target: str) -> str:
    wire = ServerWire()
    wire.feed(f"GET {target} HTTP/1.1\r\nHost: 10.0.0.5\r\n\r\n".encode())
    request = wire.next_request()
    assert request is not None
    return request.path


def test_an_absolute_uri_is_the_path_in_it() -> None:
    check_answers(Path(__file__).with_name("targets.txt"), {"target": path_of})


def test_encoded_messages_are_decoded() -> None:
    client, server = ClientWire(host="10.0.0.5"), ServerWire()
    for turn in range(3):
        sent = HttpRequest(method="PATCH", path=f"/{turn}", headers=(("authorization", basic("a", "b")),), body=b"{}")
        server.feed(client.encode(sent))
        got = server.next_request()
        assert got is not None
        assert (got.method, got.path, got.body, got.basic) == ("PATCH", f"/{turn}", b"{}", ("a", "b"))
        answer = HttpResponse(status=201, headers=(("x-turn", str(turn)),), body=b"made")
        (back,) = client.feed(server.encode(answer, wall_ns=0))
        assert (back.status, back.body, back.header("x-turn")) == (201, b"made", str(turn))
        assert back.header("date") == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert not server.over


def test_pipelined_requests_wait_for_their_turn_a_client_for_100_continue_and_head_gets_no_body() -> None:
    server = ServerWire()
    server.feed(POST + POST)
    assert server.next_request() is not None
    assert server.next_request() is None
    server.encode(HttpResponse(status=204), wall_ns=0)
    assert server.next_request() is not None
    server = ServerWire()
    server.feed(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    server.next_request()
    data = server.encode(HttpResponse(status=200, body=b"body"), wall_ns=0)
    assert data.endswith(b"content-length: 4\r\n\r\n")
    server = ServerWire()
    server.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert server.next_request() is None
    assert server.wants_go_ahead
    assert server.go_ahead().startswith(b"HTTP/1.1 100 ")
    server.feed(b"{}")
    request = server.next_request()
    assert request is not None
    assert request.body == b"{}"


def test_a_status_has_its_words_and_credentials_do_not_show_and_are_none_where_they_cannot_be_read() -> None:
    assert (phrase(404), phrase(799)) == ("404 Not Found", "799")
    request = HttpRequest(method="GET", path="/", headers=(("authorization", basic("admin", "geheim")),))
    assert basic("admin", "geheim") not in f"{request!r} {request}"
    for value in ("", "Bearer x", "Basic !", "Basic w7w", "Basic YWRtaW4="):
        assert HttpRequest(method="GET", path="/", headers=(("authorization", value),)).basic is None


def chunks() -> st.SearchStrategy[list[bytes]]:
    """Arbitrary bytes, and pieces of real messages in any order."""
    pieces = [
        ANSWER,
        CHUNKED,
        POST,
        ANSWER[:40],
        POST[40:],
        b"\r\n",
        b"Content-Length: 9999999999999\r\n\r\n",
        b"0\r\n\r\n",
    ]
    return st.lists(st.one_of(st.binary(min_size=1, max_size=60), st.sampled_from(pieces)), max_size=8)


@given(chunks())
def test_arbitrary_answers_are_answers_or_protocol_errors(data: list[bytes]) -> None:
    wire = asking()
    try:
        for part in [*data, b""]:
            for response in wire.feed(part):
                assert 200 <= response.status <= 999
            if wire.reusable:
                wire.encode(GET)
    except ProtocolError:
        return


@given(chunks())
def test_arbitrary_requests_are_requests_or_protocol_errors(data: list[bytes]) -> None:
    wire = ServerWire()
    try:
        for part in [*data, b""]:
            wire.feed(part)
            while (request := wire.next_request()) is not None:
                assert request.basic is None or request.basic[0] == "admin"
                wire.encode(HttpResponse(status=200, body=b"x"), wall_ns=0)
            if wire.over:
                return
    except ProtocolError:
        if not wire.over:
            wire.encode(HttpResponse(status=400), wall_ns=0)


def test_a_cookie_of_a_device_goes_back_as_it_came() -> None:
    wire = asking()
    (answer,) = wire.feed(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=\xe9\r\nContent-Length: 0\r\n\r\n")
    again = HttpRequest(method="GET", path="/", headers=(("cookie", answer.header("set-cookie")),))
    assert b"cookie: a=\xe9\r\n" in wire.encode(again).lower()
    wire.feed(ANSWER)
    with pytest.raises(BugError, match="GET"):
        wire.encode(HttpRequest(method="GET", path="/", headers=(("cookie", "a=\u20ac"),)))
