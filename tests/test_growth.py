"""Every reader of input from outside takes time in proportion to the length of the input.

Each codec, reader and expression reads growing inputs of many shapes. The CPU time is the least of several runs; sizes
double until one takes milliseconds. The exponent that is fitted to the last two doublings must stay well below that of
a square. Each shape has a budget of time, so that a quadratic reader fails in a second and not in an hour.

What reads text or bytes alone is found and fed by itself; what needs more has a line of FURTHER.
"""

import ast
import functools
import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hwd.client import event_stream
from hwd.config.playbook import expression, playbook
from hwd.config.testbed import ends, wanted_state
from hwd.config.testbed import topology_file as topology
from hwd.config.yaml import tree
from hwd.daemon import installed_drivers as installed
from hwd.mfabric import demand_csv, demand_npz
from hwd.model import kinds, testbed
from hwd.reconfigure.journal import file as journal_file
from hwd.rollout.ssh import marks
from hwd_agents.clock import datagram as clock_wire
from hwd_agents.sources.kernel import mlxlink as firmware
from hwd_agents.sources.kernel import wall_clock as wall
from hwd_drivers.codecs import http as http_wire
from hwd_drivers.codecs import scpi, tl1, tl1_words
from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.core import frames, values
from hwd_drivers.core.errors import HwdError
from hwd_drivers.families.calient import ports as calient_ports
from hwd_drivers.families.polatis.netconf import framing, xml
from hwd_drivers.families.polatis.netconf import protocol as polatis_netconf
from hwd_drivers.families.polatis.restconf import resources
from hwd_drivers.families.sercalo.ascii import part as sercalo_ascii
from hwd_drivers.families.sonic import cli as sonic_cli
from hwd_drivers.families.sonic import protocol as sonic
from hwd_drivers.transports import mask, serial_line
from hwd_drivers.twins import scpi_tree

ROOT = Path(__file__).resolve().parents[1]
EXPONENT_MOST = 1.7
"""1 is linear; a busy machine makes 1.3 of it at times, and 2 is what must not be."""
ENOUGH_S = 0.002
"""A size that takes so long is measured well."""
BUDGET_S = 1.0
"""Of one input: what is linear reads any shape in less."""
FIRST_BYTES = 1 << 10
LAST_BYTES = 1 << 15
LAST_BYTES_BYTEWISE = 1 << 13
REPEATS = 3
BYTEWISE = (
    "blanks",
    "lines",
    "letters",
    "digits",
    "quoted",
    "semicolons",
    "zeros",
    "a TL1 answer",
    "a TL1 answer in blocks",
    "an HTTP head",
    "an HTTP answer in chunks",
    "a NETCONF message",
    "a long frame",
)
"""Shapes that are fed byte by byte too: what is begun and has no end, and whole answers."""

ANSWER_HEAD = b"\r\n\n   OCS 26-01-31 23:59:59\r\nM  1 COMPLD\r\n"

SHAPES: Mapping[str, Callable[[int], bytes]] = {
    "blanks": lambda size: b" " * size,
    "blanks in a line": lambda size: b" " * size + b"x\n",
    "lines": lambda size: b"\n" * size,
    "blanks and lines": lambda size: b" \n" * (size // 2),
    "braces": lambda size: b"{" * size,
    "braces in braces": lambda size: b"{" * (size // 2) + b"}" * (size // 2),
    "holes": lambda size: b"{{ a }}" * (size // 7),
    "quotes": lambda size: b'"' * size,
    "quoted": lambda size: b'"' + b"a;" * (size // 2) + b'"',
    "single quotes": lambda size: b"'" * size,
    "backslashes": lambda size: b"\\" * size,
    "quoted backslashes": lambda size: b'"' + b"\\" * size,
    "brackets": lambda size: b"[" * size,
    "parentheses": lambda size: b"(" * (size // 2) + b")" * (size // 2),
    "digits": lambda size: b"1" * size,
    "digits and a letter": lambda size: b"1" * size + b"x",
    "letters": lambda size: b"A" * size,
    "words": lambda size: b"ab " * (size // 3),
    "commas": lambda size: b"," * size,
    "pairs": lambda size: b"1A-2B," * (size // 6),
    "ranges": lambda size: b"1A..9A-1B..9B," * (size // 14),
    "groups": lambda size: b"1&&3&" * (size // 5),
    "names": lambda size: b"a=1," * (size // 4),
    "semicolons": lambda size: b"ab;" * (size // 3),
    "colons": lambda size: b"ab:" * (size // 3),
    "dashes": lambda size: b"a-" * (size // 2),
    "zeros": lambda size: b"\0" * size,
    "json": lambda size: b'{"a":[' + b"1," * (size // 2) + b"1]}",
    "deep json": lambda size: b'{"a":' * (size // 5) + b"1" + b"}" * (size // 5),
    "xml": lambda size: b"<a>" + b"<b/>" * (size // 4) + b"</a>",
    "yaml": lambda size: b"a:\n" + b"- b: 1\n" * (size // 7),
    "a TL1 head with blanks in it": lambda size: b"\n   OCS" + b" " * size + b"26-01-31\nM  1 COMPLD\n;",
    "a TL1 head with blanks before": lambda size: b" " * size + b"\nM  1 COMPLD\n;",
    "a TL1 report with blanks": lambda size: (
        b"\n   OCS 26-01-31 23:59:59\nA  1 REPT" + b" " * size + b"x" + b" " * size + b"\x01\n;"
    ),
    "a TL1 answer": lambda size: ANSWER_HEAD + b'   "1,49"\r\n' * (size // 11) + b";",
    "a TL1 answer in blocks": lambda size: (ANSWER_HEAD + b">") * (size // len(ANSWER_HEAD)) + ANSWER_HEAD + b";",
    "a TL1 comment": lambda size: ANSWER_HEAD + b"/*\n" + b"x\n" * (size // 2) + b"*/\n;",
    "TL1 prompts": lambda size: b"agent>" * (size // 6) + b"\n;",
    "a TL1 command in quotes": lambda size: b'ENT-X::"' + b"a" * size + b'":1;',
    "an HTTP head": lambda size: b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (size // 6) + b"\r\n",
    "an HTTP head with blanks": lambda size: b"HTTP/1.1 200 OK\r\na:" + b" \t" * (size // 2) + b"\x01\r\n\r\n",
    "an HTTP answer in chunks": lambda size: (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (size // 6) + b"0\r\n\r\n"
    ),
    "HTTP requests": lambda size: b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * (size // 28),
    "a NETCONF message": lambda size: b"<hello>" + b"]]>]]" * (size // 5) + b"]]>]]>",
    "SCPI lists": lambda size: b"(@" + b"1:2," * (size // 4) + b"1)",
    "a SCPI error": lambda size: b'-1,"' + b'""' * (size // 2) + b"x",
    "a table": lambda size: (
        b"id      a_side    b_side\n------  --------  --------\n" + b"1A-1B   1A        1B\n" * (size // 24)
    ),
    "colon fields": lambda size: b" systemd[1]: x\n" * (size // 15),
    "frames": lambda size: b"\xfe\xfe\x04\x01\x01\x00\x02" * (size // 7),
    "a long frame": lambda size: (size + 4).to_bytes(4, "big") + b"\0" * size,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One reader. `makes`: a new feed for each input, where the reader takes bytes as they come; also read bytewise."""

    makes: Callable[[], Callable[[bytes], object]]
    stream: bool = True


def _text(read: Callable[[str], object]) -> Reader:
    return Reader(makes=lambda: lambda data: read(data.decode("latin-1")), stream=False)


def _whole(read: Callable[[bytes], object]) -> Reader:
    return Reader(makes=lambda: read, stream=False)


def _lines(read: Callable[[list[str]], object]) -> Reader:
    return _text(lambda text: read(text.split("\n")))


def _tl1(read: Callable[[Answer], object]) -> Reader:
    return _lines(lambda lines: read(Answer(ctag="1", code=Completion.COMPLD, lines=tuple(lines))))


TAKES: Mapping[str, Callable[[Callable[[Any], object]], Reader]] = {
    "str": _text,
    "bytes": _whole,
    "Answer": _tl1,
    "Sequence[str]": _lines,
    "list[str]": _lines,
}
"""What a reader is found by: the type of what it reads."""


def _client() -> Callable[[bytes], object]:
    asked = http_wire.ClientWire(host="a")
    asked.encode(http_wire.HttpRequest(method="GET", path="/"))
    return asked.feed


def _server() -> Callable[[bytes], object]:
    served = http_wire.ServerWire()

    def feed(data: bytes) -> None:
        served.feed(data)
        served.next_request()

    return feed


def _netconf() -> Callable[[bytes], object]:
    decoder = framing.FrameDecoder()

    def feed(data: bytes) -> None:
        decoder.feed(data)
        while (message := decoder.take()) is not None:
            xml.parse(message.strip())

    return feed


def _chunks() -> Callable[[bytes], object]:
    decoder = framing.FrameDecoder()
    decoder.chunked = True

    def feed(data: bytes) -> None:
        decoder.feed(b"".join(b"\n#1\n%c" % byte for byte in data[: len(data) // 8]))
        while decoder.take() is not None:
            pass

    return feed


def _hide(text: str) -> str:
    """A cookie that a device gave, where that device says it again, whole, in pieces and cut off."""
    hidden = mask.Mask()
    hidden.add(text)
    pieces = "...".join(text[at : at + 20] for at in range(0, len(text), 20))
    return hidden.text(f"{text}...{pieces}...{text[:100]}x...")


@functools.cache
def _rack() -> testbed.Testbed:
    return installed.load(ROOT / "examples" / "opus-testbed.yaml").require()


def _marked() -> Callable[[bytes], object]:
    """As it is once the begin was seen."""
    stream = marks.Marks("hwd-0123456789").stream()
    stream.feed(b"hwd-0123456789 begin\n")
    return stream.feed


FURTHER: Mapping[str, Reader] = {
    "hwd_drivers.codecs.tl1, after prompts": Reader(makes=lambda: tl1.AnswerDecoder(prompt="agent>").feed),
    "hwd_drivers.codecs.tl1_words, quoted": _text(tl1_words.quote),
    "hwd_drivers.families.calient.ports": _lines(calient_ports.PortMap.of),
    "hwd_drivers.codecs.lines": Reader(makes=lambda: scpi.LineDecoder().feed),
    "hwd_drivers.twins.scpi_tree": _text(lambda text: scpi_tree.ScpiTree({"OXC:SWITch:SIZE?": 1}).find(text)),
    "hwd_drivers.codecs.http, answers": Reader(makes=_client),
    "hwd_drivers.codecs.http, requests": Reader(makes=_server),
    "hwd_drivers.devices.line_part": Reader(makes=sercalo_ascii.PART.answers),
    "hwd_drivers.families.polatis.netconf.framing": Reader(makes=_netconf),
    "hwd_drivers.families.polatis.netconf.framing, chunks": Reader(makes=_chunks, stream=False),
    "hwd_drivers.families.polatis.restconf.resources, bodies": _whole(
        lambda data: resources.read_body(data, "application/json", "pair", polatis_netconf.OPSW)
    ),
    "hwd_drivers.families.sonic.protocol, tables": _lines(
        lambda lines: sonic.read_table(lines, ("id", "a_side", "b_side"))
    ),
    "hwd_drivers.families.sonic.cli": _text(sonic_cli.words_of),
    "hwd_drivers.transports.mask": _text(_hide),
    "hwd_drivers.transports.serial_line, settings": _text(
        lambda text: serial_line.SerialLine.parse(f"serial:/dev/x?{text}")
    ),
    "hwd_drivers.core.values, keys": _text(values.natural_key),
    "hwd_drivers.core.frames, behind damage": _whole(lambda data: frames.decode_frames(data, resume=b'{"')),
    "hwd_agents.clock.datagram": _whole(lambda data: clock_wire.decode(data, "key")),
    "hwd_agents.sources.kernel.wall_clock, answers": _text(
        lambda text: wall.parse_management(f"RESPONSE MANAGEMENT\n{text}")
    ),
    "hwd_agents.sources.kernel.mlxlink": _whole(lambda data: firmware.parse_state("eth0", data)),
    "hwd.rollout.ssh.marks": Reader(makes=lambda: marks.Marks("hwd-0123456789").stream().feed),
    "hwd.rollout.ssh.marks, after its mark": Reader(makes=_marked),
    "hwd.config.testbed.ends": _text(ends.ports_in),
    "hwd.config.playbook.expression, holes": _text(lambda text: expression.substitute(text, {"a": 1})),
    "hwd.config.playbook.expression, names": _text(expression.names_in),
    "hwd.config.yaml.tree": _whole(lambda data: tree.parse_tree(data, file="x.yaml")),
    "hwd.config.playbook.playbook": _text(lambda text: playbook.load_playbook_text(text, file="x.yaml")),
    "hwd.config.testbed.topology_file": _text(
        lambda text: topology.load_topology(tree.parse_tree(text, file="x.yaml")).require()
    ),
    "hwd.client.event_stream": _text(
        lambda text: [*map(event_stream.Lines(beat=lambda id: None).feed, text.split("\n"))]
    ),
    "hwd.config.testbed.wanted_state": _text(lambda text: wanted_state.parse_what(text, _rack())),
    "hwd.config.testbed.wanted_state, pairs": _text(lambda text: wanted_state.parse_what(f"ocs1:{text}", _rack())),
    "hwd.mfabric.demand_csv, pairs": _whole(lambda data: demand_csv.read_csv(b"from,to,bytes\n" + data)),
    "hwd.mfabric.demand_npz, archives": _whole(lambda data: [*demand_npz.read_npz(b"PK\x03\x04" + data)]),
    "hwd.model.kinds": _whole(lambda data: kinds.read_fact("reconfiguration.started", data)),
    "hwd.reconfigure.journal.file": _whole(lambda data: journal_file.read(data, None)),
}
"""By the module; what stands behind a comma tells several of a module apart."""

EXEMPT: Mapping[str, str] = {
    "hwd.cli.commands.faults": "words of the operator's own command line, bounded by the system",
    "hwd.config.playbook.leaf_steps": "steps of playbooks, which are fed whole",
    "hwd.mfabric.demand_file": "hands the file to the readers of CSV and NPZ, which are fed",
    "hwd.twin.host_twin": "names of settings, looked up",
    "hwd.twin.twin_settings": "words of the operator's own command line, bounded by the system",
    "hwd_agents.sources.modules.thresholds": "a part of a module's memory, which is fed whole",
    "hwd_agents.sources.twin.hostwire_server": "names of settings, looked up; the frames are fed",
    "hwd_agents.sources.twin.manual_host": "names of settings, looked up",
    "hwd_agents.switches.target": "one word of a job, looked up; its line is at most 64 kB",
    "hwd_agents.wire.events": "reads what the decoder of messages made, which is fed",
    "hwd_drivers.conformance.answer_tap": "hands bytes on",
    "hwd_drivers.devices.tl1_client": "hands answers to readers that are fed",
    "hwd_drivers.families.polatis.netconf.client": "hands answers to readers that are fed",
    "hwd_drivers.families.polatis.netconf.protocol": "reads what the decoder of messages made, which is fed",
}
"""Modules whose readers are none of the two, and why."""

NAMES = ("parse", "decode", "read", "unquote", "substitute")


def _found() -> Iterator[tuple[str, Reader | None]]:
    """Every public parser, decoder or reader, by its module and name; none of it where it needs more than its input."""
    for package, folder in (("hwd_drivers", "drivers"), ("hwd_agents", "agents"), ("hwd", ".")):
        for path in sorted((ROOT / folder / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / folder).with_suffix("").parts)
            for node in ast.parse(path.read_text()).body:
                owner = node if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else None
                for each in (node,) if owner is None else owner.body:
                    if isinstance(each, ast.FunctionDef) and _reads(each):
                        yield f"{module}, {owner.name + '.' if owner else ''}{each.name}", _alone(module, owner, each)


def _reads(function: ast.FunctionDef) -> bool:
    if not (function.name == "feed" or function.name.split("_")[0] in NAMES):
        return False
    return any(each.annotation and ast.unparse(each.annotation) in (*TAKES, "Reply") for each in function.args.args)


def _needs(function: ast.FunctionDef) -> list[str]:
    """The types of what has no default, but for self and cls."""
    of, first = function.args, function.args.args[:1]
    bound = [*of.args][1 if first and first[0].arg in ("self", "cls") else 0 : len(of.args) - len(of.defaults)]
    named = [each for each, default in zip(of.kwonlyargs, of.kw_defaults, strict=True) if default is None]
    return [ast.unparse(each.annotation) if each.annotation else "" for each in (*bound, *named)]


def _alone(module: str, owner: ast.ClassDef | None, function: ast.FunctionDef) -> Reader | None:
    makes = (
        [each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"] if owner else []
    )
    (takes, *more) = _needs(function) or [""]
    is_stream = function.name == "feed"
    if more or takes not in TAKES or (is_stream and (owner is None or any(map(_needs, makes)))):
        return None
    if owner is not None and not is_stream and not function.decorator_list:
        return None

    def read() -> Callable[[Any], object]:
        holder = importlib.import_module(module)
        if owner is None:
            return getattr(holder, function.name)  # type: ignore[no-any-return]
        kind = getattr(holder, owner.name)
        return getattr(kind() if is_stream else kind, function.name)  # type: ignore[no-any-return]

    return Reader(makes=read) if is_stream else TAKES[takes](lambda data: read()(data))


FOUND = dict(_found())
READERS = {name: reader for name, reader in FOUND.items() if reader is not None} | dict(FURTHER)


def test_every_module_that_reads_is_fed_or_says_why_not() -> None:
    fed = {name.partition(",")[0] for name in READERS}
    assert sorted({name.partition(",")[0] for name in FOUND} - fed) == sorted(EXEMPT)


@pytest.mark.parametrize("name", READERS)
def test_reading_takes_time_in_proportion(name: str) -> None:
    _hold(name, last_bytes=1 << 13, bytewise=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_reading_of_much_takes_time_in_proportion(name: str) -> None:
    _hold(name, last_bytes=LAST_BYTES, bytewise=READERS[name].stream)


def _hold(name: str, *, last_bytes: int, bytewise: bool) -> None:
    steep = []
    for shape, make in SHAPES.items():
        for way in ("whole", "bytewise") if bytewise and shape in BYTEWISE else ("whole",):
            last = last_bytes if way == "whole" else min(last_bytes, LAST_BYTES_BYTEWISE)
            if found := _growth(READERS[name], make, last, bytewise=way == "bytewise"):
                steep.append(f"{shape}, {way}: {found}")
    assert not steep, f"{name} takes more than its share of time for: {'; '.join(steep)}"


def _growth(reader: Reader, shape: Callable[[int], bytes], last_bytes: int, *, bytewise: bool) -> str:
    """What is wrong with it; empty where it grows as it should, or is too quick to tell."""
    size = FIRST_BYTES
    times: list[tuple[int, float]] = []
    while size <= last_bytes:
        took_s = _took_s(reader, shape(size), bytewise=bytewise)
        if took_s > BUDGET_S:
            took_s = min(took_s, _took_s(reader, shape(size), bytewise=bytewise))
        times.append((size, took_s))
        if took_s > BUDGET_S:
            return f"{size} bytes take {took_s:.3g} s"
        if len(times) >= 3 and times[-3][1] > ENOUGH_S:
            break
        size *= 2
    # The last three sizes, or none: what ends below that is quick at its largest.
    if len(times) < 3 or times[-3][1] <= ENOUGH_S or _exponent(times[-3:]) <= EXPONENT_MOST:
        return ""
    again = [
        (size, min(_took_s(reader, shape(size), bytewise=bytewise) for _ in range(REPEATS))) for size, _ in times[-3:]
    ]
    exponent = _exponent(again)
    return f"its time grows with the power {exponent:.2f} of the size" if exponent > EXPONENT_MOST else ""


def _exponent(times: list[tuple[int, float]]) -> float:
    """Of sizes and seconds, by least squares of the logarithms."""
    x = [math.log(size) for size, _ in times]
    y = [math.log(max(took_s, 1e-6)) for _, took_s in times]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / sum((a - middle_x) ** 2 for a in x)


def _took_s(reader: Reader, data: bytes, *, bytewise: bool) -> float:
    """CPU seconds until all was read, or was refused."""
    feed = reader.makes()
    pieces = [data[at : at + 1] for at in range(len(data))] if bytewise else [data]
    started_s = time.process_time()
    try:
        for piece in pieces:
            feed(piece)
    except (HwdError, ValueError, NotImplementedError):  # the last: of a base class
        pass
    return time.process_time() - started_s
