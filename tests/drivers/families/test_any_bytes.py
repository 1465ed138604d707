"""Whatever comes from the other side is understood or is a ProtocolError, and no bytes of a client upset a twin."""

import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hwd_drivers.codecs import scpi, tl1
from hwd_drivers.codecs.http import HttpRequest, basic
from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.codecs.tl1_words import parse_group
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.calient.rest import protocol as rest
from hwd_drivers.families.calient.tl1 import protocol as calient_tl1
from hwd_drivers.families.polatis.netconf import messages, xml
from hwd_drivers.families.polatis.netconf.protocol import OPSW
from hwd_drivers.families.polatis.restconf import protocol as restconf
from hwd_drivers.families.polatis.restconf import resources
from hwd_drivers.families.sonic import protocol as sonic
from hwd_drivers.families.ttl import protocol as ttl
from hwd_drivers.twins.virtual_time import run_virtual

from ..stage import Stage

Readers = tuple[Callable[[Any], object], ...]
texts = st.text(max_size=80)
letters = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=60)
HEADS = {
    folder: messages.encode(messages.Hello(capabilities=capabilities), chunked=False)
    for folder, capabilities in (("new", (messages.BASE_1_0, messages.BASE_1_1)), ("old", (messages.BASE_1_0,)))
}


def word(words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words.split(" "))


def captured(folder: str, mark: str = "") -> list[bytes]:
    """Lines of the captures of a family, which begin with a mark or with a name."""
    lines = (Path(__file__).parent / folder / "captures.txt").read_text(encoding="utf-8").splitlines()
    found = [line.partition(" ")[2] for line in lines if line and line[0] != "#" and line.startswith(mark)]
    return [line.encode().decode("unicode_escape").encode("latin-1", "replace") for line in found]


def fed(make: Callable[[], Any], use: Callable[[Any], object] = lambda message: message) -> Callable[[Any], object]:
    """A reader of chunks, which uses each message."""

    def read(chunks: Iterable[bytes]) -> None:
        decoder = make()
        for chunk in chunks:
            for message in decoder.feed(chunk):
                use(message)

    return read


def tl1_command(text: str) -> None:
    tl1.ctag_of(text)
    tl1.parse_command(text)


def lines_of(reader: Callable[[Answer], object]) -> Callable[[Iterable[bytes]], object]:
    def read(lines: Iterable[bytes]) -> object:
        told = tuple(line.decode(errors="replace").strip(' "\r\n') for line in lines)
        return reader(Answer(ctag="1", code=Completion.COMPLD, lines=told))

    return read


def chunks_of(*pieces: bytes) -> st.SearchStrategy[list[bytes]]:
    """Arbitrary bytes, and pieces of real messages, whole and cut, in any order."""
    cut = st.sampled_from(pieces).flatmap(lambda piece: st.integers(0, len(piece)).map(lambda at: piece[:at]))
    return st.lists(st.binary(max_size=60) | texts.map(str.encode) | st.sampled_from(pieces) | cut, max_size=10)


def json_of(words: str) -> st.SearchStrategy[bytes]:
    """Arbitrary JSON, whose objects have some of these keys, and its texts are some of them."""
    some = word(words)
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-10, 70000) | st.floats() | st.text(max_size=6) | some,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(some, inner, max_size=4),
        max_leaves=12,
    )
    return values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60)


RESTCONF = (
    "optical-switch:cross-connects pair ingress egress port port-id power optical-switch:voa atten-mode atten-level "
    "input x label mode offset wavelength averaging-time port-enab port-disab startup-mode optical-switch:pair "
    "optical-switch:port-config optical-switch:port"
)
REST = "half1 half2 conn status response port inpower outpower version as 1 0 1.1.1>1.1.2 -3.4 NONE"
TL1_ENDS = (b"\r\n", b"\n;", b"\n>", b"\n<", b"   ", b"M  1 ", b"COMPLD", b"DENY", b"IP 1", b"OXC 26-11-20 10:11:12")
SALAD = 'ok error info read set pulse lines=4 1=0 1=0,1=1 2, 0 1000001 = & && , : :: ; " \\ ( ) (@ SCAN? \r \n'
FORM = (("content-type", "application/x-www-form-urlencoded"),)
TABLE = "id       a_side    b_side\n-------  --------  --------\n"


class Case(NamedTuple):
    readers: Readers
    some: st.SearchStrategy[Any]


CASES = {
    "answers of TL1": Case(
        (fed(tl1.AnswerDecoder), fed(lambda: tl1.AnswerDecoder(prompt=calient_tl1.PROMPT))),
        chunks_of(*TL1_ENDS, *captured("polatis/tl1", "<"), *captured("calient/tl1")),
    ),
    "commands of TL1": Case(
        (fed(tl1.CommandDecoder, tl1_command),),
        chunks_of(b'"', b"\\", b":", b"&&", b";", *captured("polatis/tl1", ">")),
    ),
    "text of a command of TL1": Case((tl1_command, parse_group), texts),
    "data lines of Calient": Case(
        tuple(
            lines_of(reader)
            for reader in (
                lambda answer: calient_tl1.read_connections(answer, {"1.1.1": 1, "1.1.2": 2}),
                calient_tl1.read_powers,
                calient_tl1.read_ports,
                calient_tl1.read_element,
            )
        ),
        chunks_of(*(line for capture in captured("calient/tl1") for line in capture.splitlines())),
    ),
    "answers of SCPI": Case(
        (fed(scpi.LineDecoder, scpi.split_answers),),
        chunks_of(*captured("polatis/scpi", "<"), *captured("dicon/mxs", "<")),
    ),
    "commands of SCPI": Case(
        (fed(scpi.LineDecoder, scpi.parse_line),),
        chunks_of(*captured("polatis/scpi", ">"), *captured("dicon/mxs", ">")),
    ),
    "answers of Calient's REST": Case(
        (
            rest.read_rows,
            rest.read_ports,
            rest.read_powers,
            rest.read_version,
            rest.read_serial,
            lambda body: rest.read_results(body, 2),
        ),
        json_of(REST) | st.sampled_from(captured("calient/rest")),
    ),
    "requests of Calient's REST": Case(
        (
            lambda body: rest.query(HttpRequest(method="POST", path="/rest/", headers=FORM, body=body)),
            lambda body: rest.query(HttpRequest(method="GET", path=f"/rest/{body.decode('latin-1')}")),
        ),
        st.binary(max_size=60),
    ),
    "answers of RESTCONF": Case(
        (
            restconf.read_pairs,
            restconf.read_powers,
            restconf.read_product,
            restconf.read_statuses,
            restconf.read_voa,
            restconf.read_failures,
        ),
        json_of(RESTCONF) | st.sampled_from(captured("polatis/restconf")),
    ),
    "requests of RESTCONF": Case(
        tuple(
            lambda body, name=name, kind=kind: resources.read_body(body, kind, name, OPSW)  # type: ignore[misc]
            for name in ("pair", "cross-connects", "input")
            for kind in ("", restconf.XML_TYPE, restconf.JSON_TYPE)
        ),
        json_of(RESTCONF) | st.sampled_from(captured("polatis/restconf")),
    ),
    "paths of RESTCONF": Case((resources.parse_path,), letters),
    "messages of NETCONF": Case(
        (fed(lambda: messages.MessageDecoder(base_1_1=False)), fed(lambda: messages.MessageDecoder(base_1_1=True))),
        st.tuples(st.sampled_from([b"", *HEADS.values()]), chunks_of(*captured("polatis/netconf", ">"))).map(
            lambda parts: [parts[0], *parts[1]]
        ),
    ),
    "XML of NETCONF": Case(
        (lambda text: messages.encode(messages.read(xml.parse(text.encode())), chunked=True),),
        st.builds(
            '<{0} xmlns="{1}">{2}</{0}>'.format,
            st.sampled_from(["hello", "rpc", "rpc-reply", "notification", "other"]),
            st.sampled_from(["", messages.BASE, "urn:x"]),
            st.recursive(
                st.just("x"),
                lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"<a>{''.join(parts)}</a>"),
                max_leaves=8,
            ),
        ),
    ),
    "tables of SONiC": Case(
        tuple(
            lambda data, reader=reader: reader(sonic.lines_of(data))  # type: ignore[misc]
            for reader in (sonic.read_config, sonic.read_status, sonic.read_overrides)
        ),
        st.binary(max_size=400)
        | st.text(alphabet="1A2B-. idtuned_side\n", max_size=200).map(lambda text: (TABLE + text).encode()),
    ),
    "requests and answers of line banks": Case(
        (fed(ttl.RequestDecoder), fed(ttl.AnswerDecoder)), st.lists(st.binary(max_size=64), max_size=20)
    ),
    "words of line banks": Case((ttl.parse_request, ttl.parse_answer), st.lists(word(SALAD), max_size=6).map(" ".join)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=80)
@given(data=st.data())
def test_what_comes_is_understood_or_a_protocol_error(case: Case, data: st.DataObject) -> None:
    some = data.draw(case.some)
    for reader in case.readers:
        with contextlib.suppress(ProtocolError):
            reader(some)


@settings(max_examples=30)
@given(
    st.lists(word(f"{SALAD} ENT-PATCH DLT-PATCH RTRV-PATCH SET-TH-PMON OPR-PORT-FLAP ENT-CRS RTRV-CRS 1 9 ALL é")),
    st.lists(word(f"{SALAD} :oxc:swit: conn: add sub only stat? *RST ROUT1: OPEN WEN STAT? 99999 é")),
    st.binary(max_size=40),
)
def test_after_any_bytes_of_a_client_the_next_clients_are_answered(
    tl1_words: list[str], scpi_words: list[str], noise: bytes
) -> None:
    async def polatis() -> None:
        options = {"scpi": "mem:scpi"}
        async with Stage("polatis-tl1", "polatis-vst", "8x8", options={**options}) as stage:
            await stage.start()
            for address, words, end in ((None, tl1_words, b'";\n";\n'), ("mem:scpi", scpi_words, b"\n")):
                client = await stage.connect(address)
                await client.ask("ACT-USER::admin:1::root;" if address is None else "")
                await client.say(" ".join(words).encode() + noise + end)
            client, other = await stage.connect(), await stage.connect("mem:scpi")
            assert "M  1 COMPLD" in await client.ask("ACT-USER::admin:1::root;")
            assert "M  2 COMPLD" in await client.ask("DLT-PATCH::ALL:2:;")
            assert await other.ask(":oxc:swit:conn:stat?\n") == "(@),(@)\r\n"

    async def dicon() -> None:
        async with Stage("dicon-mxs", "mxs-9100", "4x4") as stage:
            await stage.start()
            await (await stage.connect()).say(" ".join(scpi_words).encode() + noise + b"\r")
            assert await (await stage.connect()).say(b"*RST;STAT?\r") == b"READY\r"

    run_virtual(polatis())
    run_virtual(dicon())


@settings(max_examples=80)
@given(
    word("GET POST DELETE PUT PATCH HEAD OPTIONS"),
    st.builds(
        "/rest/{}?id={}&conn={}&port={}".format,
        st.sampled_from(["crossconnects/", "ports/", "info/", "node/", ""]),
        word("add badd bdel list detail delete activate deactivate deleteall summary config x"),
        *[st.sampled_from(["", "1.1.1", "1.1.2", "9.9.9", "1.1.1>1.1.2", "1.1.1-1.1.2", "x"])] * 2,
    )
    | letters,
    json_of("in out dir conn group name port inalias 1.1.1 1.1.2 1.1.3 1.1.1>1.1.2 bi uni SYSTEM a;b"),
    st.builds(
        "/api/data/optical-switch:{}{}{}".format,
        word("cross-connects port-config opm-power opm-config opm-alarm-config voa system-config ports x"),
        st.sampled_from(["", "/pair", "/port", "/pair=", "/port=", "/pair=1/egress", "/port=1/label"]),
        st.sampled_from(["", "1", "99", "-1", "a", "1/x"]),
    )
    | st.sampled_from(["/api/operations/optical-switch:port-set-state", "/api/operations/x", "/", "/api/data/", "*"]),
    json_of(RESTCONF) | st.sampled_from([b"<pair/>", b"<pair><ingress>1</ingress></pair>", b"<cross-connects/>"]),
    st.sampled_from([restconf.JSON_TYPE, restconf.XML_TYPE, ""]),
)
@example("POST", "/rest/crossconnects/?id=add&in=1.1.1&out=1.1.2&dir=bi&conn=&port=", b"", "/", b"", "")
def test_any_request_has_an_answer_and_the_unit_stays_whole(
    method: str, rest_path: str, rest_body: bytes, path: str, body: bytes, kind: str
) -> None:
    calient, polatis = (FRONTS[name] for name in ("calient-rest", "polatis-restconf"))
    login = (("authorization", basic("a", "b")),)
    answer = calient.front.handle(HttpRequest(method=method, path=rest_path, headers=login, body=rest_body))
    assert answer.status in {200, 400, 404}
    held = [end for each in calient.unit.connections() for light in each.paths for end in light.ends]
    assert len(set(held)) == len(held)
    active = {light for each in calient.unit.connections() if each.active for light in each.paths}
    assert set(calient.unit.mirror.crossconnects()) == active
    headers = (*login, ("content-type", kind), ("accept", kind))
    answer = polatis.front.handle(HttpRequest(method=method, path=path, headers=headers, body=body))
    assert answer.status in {200, 201, 204, 400, 404, 405, 409, 500}
    ports = [port for pair in polatis.unit.pairs() for port in pair]
    assert len(set(ports)) == len(ports)
    assert all(1 <= port <= 8 for port in ports)


class Front(NamedTuple):
    unit: Any
    front: Any


def _front(driver: str, model: str, size: str, name: str) -> Front:
    async def make() -> Front:
        twin = Stage(driver, model, size).make()
        return Front(twin.unit, twin.fronts[name])

    return run_virtual(make())


FRONTS = {
    "calient-rest": _front("calient-rest", "calient-s160", "4", "rest"),
    "polatis-restconf": _front("polatis-restconf", "polatis-vst", "4x4", "restconf"),
}
