"""Every reader of input from outside takes time in proportion to the length of the input.

Each codec, reader and expression reads growing inputs of many shapes. The CPU time is the least of several runs; sizes
double until one takes milliseconds. The exponent that is fitted to the last two doublings must stay well below that of
a square. Each shape has a budget of time, so that a quadratic reader fails in a second and not in an hour.
"""

import ast
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from hwd.client import event_stream
from hwd.config.playbook import expression, playbook
from hwd.config.testbed import ends, wanted_state
from hwd.config.testbed import topology_file as topology
from hwd.config.yaml import tree
from hwd.daemon import installed_drivers as installed
from hwd.mfabric import demand_csv, demand_file, demand_npz
from hwd.model import kinds, link, nic_port, ssh, testbed
from hwd.reconfigure.journal import file as journal_file
from hwd.rollout.ssh import marks
from hwd_agents.clock import datagram as clock_wire
from hwd_agents.probes import datagrams as probe_wire
from hwd_agents.sources import setting_source as host_settings
from hwd_agents.sources.kernel import ip_counters, sockets
from hwd_agents.sources.kernel import mlxlink as firmware
from hwd_agents.sources.kernel import port_counters as counters
from hwd_agents.sources.kernel import wall_clock as wall
from hwd_agents.sources.modules import cmis, module_kinds, sff8472, sff8636, thresholds
from hwd_agents.sources.twin import hostwire
from hwd_agents.spool import file as spool_file
from hwd_agents.wire import messages as agent_messages
from hwd_drivers.codecs import http as http_wire
from hwd_drivers.codecs import lines as text_lines
from hwd_drivers.codecs import scpi, tl1, tl1_words
from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.core import frames, values
from hwd_drivers.core.errors import HwdError
from hwd_drivers.families.agiltron import protocol as agiltron
from hwd_drivers.families.calient import ports as calient_ports
from hwd_drivers.families.calient.rest import protocol as calient_rest
from hwd_drivers.families.calient.tl1 import lines as calient_lines
from hwd_drivers.families.calient.tl1 import protocol as calient_tl1
from hwd_drivers.families.dicon.mems import protocol as mems
from hwd_drivers.families.dicon.mxs import protocol as mxs
from hwd_drivers.families.leoni import protocol as leoni
from hwd_drivers.families.osw import protocol as osw
from hwd_drivers.families.polatis.netconf import framing, messages, xml
from hwd_drivers.families.polatis.netconf import protocol as polatis_netconf
from hwd_drivers.families.polatis.restconf import protocol as polatis_restconf
from hwd_drivers.families.polatis.restconf import resources
from hwd_drivers.families.polatis.scpi import protocol as polatis_scpi
from hwd_drivers.families.polatis.tl1 import lines as polatis_lines
from hwd_drivers.families.polatis.tl1 import protocol as polatis_tl1
from hwd_drivers.families.sercalo import protocol as sercalo
from hwd_drivers.families.sercalo.ascii import protocol as sercalo_ascii
from hwd_drivers.families.sonic import cli as sonic_cli
from hwd_drivers.families.sonic import protocol as sonic
from hwd_drivers.families.thorlabs import protocol as thorlabs
from hwd_drivers.families.ttl import protocol as ttl
from hwd_drivers.scaffold.lumen import protocol as lumen
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

    modules: tuple[ModuleType, ...]
    makes: Callable[[], Callable[[bytes], object]]
    stream: bool = True


def _text(*modules: ModuleType, read: Callable[[str], object]) -> Reader:
    return Reader(modules=modules, makes=lambda: lambda data: read(data.decode("latin-1")), stream=False)


def _whole(*modules: ModuleType, read: Callable[[bytes], object]) -> Reader:
    return Reader(modules=modules, makes=lambda: read, stream=False)


def _lines(*modules: ModuleType, read: Callable[[list[str]], object]) -> Reader:
    return _text(*modules, read=lambda text: read(text.split("\n")))


def _tl1(*modules: ModuleType, read: Callable[[Answer], object]) -> Reader:
    def made(lines: list[str]) -> object:
        return read(Answer(ctag="1", code=Completion.COMPLD, lines=tuple(lines)))

    return _lines(*modules, read=made)


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


@functools.cache
def _hide(text: str) -> str:
    """A cookie that a device gave, where that device says it again, whole, in pieces and cut off."""
    hidden = mask.Mask()
    hidden.add(text)
    pieces = "...".join(text[at : at + 20] for at in range(0, len(text), 20))
    return hidden.text(f"{text}...{pieces}...{text[:100]}x...")


def _rack() -> testbed.Testbed:
    return installed.load(ROOT / "examples" / "opus-testbed.yaml").require()


def _marked() -> Callable[[bytes], object]:
    """As it is once the begin was seen."""
    stream = marks.Marks("hwd-0123456789").stream()
    stream.feed(b"hwd-0123456789 begin\n")
    return stream.feed


READERS: Mapping[str, Reader] = {
    "TL1 answers": Reader(modules=(tl1,), makes=lambda: tl1.AnswerDecoder().feed),
    "TL1 answers after prompts": Reader(modules=(tl1,), makes=lambda: tl1.AnswerDecoder(prompt="agent>").feed),
    "TL1 commands": Reader(modules=(tl1,), makes=lambda: tl1.CommandDecoder().feed),
    "one TL1 command": _text(tl1, calient_tl1, polatis_tl1, read=lambda text: tl1.parse_command(text)),
    "TL1 groups": _text(tl1_words, read=tl1_words.parse_group),
    "TL1 words": _text(tl1_words, read=lambda text: (tl1_words.quote(text), tl1_words.unquote(text))),
    "Polatis powers": _tl1(polatis_lines, read=polatis_lines.read_powers),
    "Polatis attenuation": _tl1(polatis_lines, read=polatis_lines.read_attenuation),
    "Polatis size": _tl1(polatis_lines, read=polatis_lines.read_size),
    "Polatis serial": _tl1(polatis_lines, read=polatis_lines.read_serial),
    "Polatis monitors": _tl1(polatis_lines, read=polatis_lines.read_monitors),
    "Calient summary": _tl1(calient_lines, read=calient_lines.read_summary),
    "Calient connections": _tl1(calient_lines, read=calient_lines.read_connections),
    "Calient ports": _lines(calient_ports, read=calient_ports.PortMap.of),
    "Calient REST": _whole(calient_rest, read=calient_rest.read_rows),
    "SCPI lines": Reader(modules=(scpi, text_lines), makes=lambda: scpi.LineDecoder().feed),
    "SCPI commands": _text(scpi, read=scpi.parse_line),
    "SCPI lists": _text(scpi, read=scpi.parse_channels),
    "SCPI errors": _text(scpi, read=scpi.parse_error),
    "SCPI headers": _text(scpi_tree, read=lambda text: scpi_tree.ScpiTree({"OXC:SWITch:SIZE?": 1}).find(text)),
    "Polatis SCPI pairs": _text(polatis_scpi, read=polatis_scpi.read_pairs),
    "Polatis SCPI size": _text(polatis_scpi, read=polatis_scpi.read_size),
    "DiCon MXS identity": _text(mxs, read=mxs.read_identity),
    "HTTP answers": Reader(modules=(http_wire,), makes=_client),
    "HTTP requests": Reader(modules=(http_wire,), makes=_server),
    "NETCONF messages": Reader(modules=(framing, xml), makes=_netconf),
    "NETCONF chunks": Reader(modules=(framing,), makes=_chunks, stream=False),
    "NETCONF decoder": Reader(modules=(messages, polatis_netconf), makes=lambda: messages.MessageDecoder().feed),
    "RESTCONF paths": _text(resources, read=resources.parse_path),
    "RESTCONF bodies": _whole(
        resources, read=lambda data: resources.read_body(data, "application/json", "pair", polatis_netconf.OPSW)
    ),
    "RESTCONF pairs": _whole(polatis_restconf, read=polatis_restconf.read_pairs),
    "SONiC lists": _text(sonic, read=sonic.parse_list),
    "SONiC tables": _lines(sonic, read=lambda lines: sonic.read_table(lines, ("id", "a_side", "b_side"))),
    "SONiC version": _text(sonic, read=sonic.read_version),
    "OSW": Reader(modules=(osw,), makes=lambda: osw.AnswerDecoder().feed),
    "DiCon MEMS": Reader(modules=(mems,), makes=lambda: mems.AnswerDecoder().feed),
    "Thorlabs": Reader(modules=(thorlabs,), makes=lambda: thorlabs.AnswerDecoder().feed),
    "Leoni": Reader(modules=(leoni,), makes=lambda: leoni.AnswerDecoder().feed),
    "Sercalo": Reader(modules=(sercalo,), makes=lambda: sercalo.AnswerDecoder().feed),
    "Sercalo text": Reader(modules=(sercalo_ascii,), makes=lambda: sercalo_ascii.AnswerDecoder().feed),
    "Agiltron": Reader(modules=(agiltron,), makes=lambda: agiltron.AnswerDecoder().feed),
    "output before its mark": Reader(modules=(marks,), makes=lambda: marks.Marks("hwd-0123456789").stream().feed),
    "output after its mark": Reader(modules=(marks,), makes=_marked),
    "line banks": Reader(modules=(ttl,), makes=lambda: ttl.AnswerDecoder().feed),
    "the new driver's": Reader(modules=(lumen,), makes=lambda: lumen.AnswerDecoder().feed),
    "mask": _text(mask, read=_hide),
    "ends": _text(values, read=lambda text: (values.PortSide.parse(text), values.natural_key(text))),
    "crossconnects": _text(values, read=values.Crossconnect.parse),
    "serial lines": _text(serial_line, read=lambda text: serial_line.SerialLine.parse(f"serial:/dev/x?{text}")),
    "frames on the disk": _whole(frames, read=frames.decode_frames),
    "frames behind damage": _whole(frames, read=lambda data: frames.decode_frames(data, resume=b'{"')),
    "ranges of ports": _text(ends, read=ends.ports_in),
    "expressions": _text(expression, read=expression.Expression.parse),
    "holes": _text(expression, read=lambda text: expression.substitute(text, {"a": 1})),
    "names in holes": _text(expression, read=expression.names_in),
    "YAML": _whole(tree, read=lambda data: tree.parse_tree(data, file="x.yaml")),
    "playbooks": _text(playbook, read=lambda text: playbook.load_playbook_text(text, file="x.yaml")),
    "topology files": _text(topology, read=lambda text: topology.load_topology_text(text, file="x.yaml")),
    "links": _text(link, read=link.Link.parse),
    "crossconnects of switches": _text(link, read=link.SwitchCrossconnect.parse),
    "NIC ports": _text(nic_port, read=nic_port.NicPortId.parse),
    "SSH places": _text(ssh, read=ssh.SshPlace.parse),
    "events": _text(event_stream, read=lambda text: list(event_stream.parse(iter(text.split("\n"))))),
    "what is asked for": _text(wanted_state, read=lambda text: wanted_state.parse_what(text, _rack())),
    "crossconnects that are asked for": _text(
        wanted_state, read=lambda text: wanted_state.parse_what(f"ocs1:{text}", _rack())
    ),
    "demand in CSV": _whole(demand_csv, demand_file, read=demand_csv.read_csv),
    "pairs of demand": _whole(demand_csv, read=lambda data: demand_csv.read_csv(b"from,to,bytes\n" + data)),
    "demand in NPZ": _whole(demand_npz, read=lambda data: [*demand_npz.read_npz(b"PK\x03\x04" + data)]),
    "documents": _whole(kinds, read=lambda data: kinds.read_fact("reconfiguration.started", data)),
    "messages of agents": _whole(agent_messages, read=agent_messages.decode),
    "command lines of SONiC": _text(sonic_cli, read=sonic_cli.words_of),
    "clock datagrams": _whole(clock_wire, read=lambda data: clock_wire.decode(data, "key")),
    "probes": _whole(probe_wire, read=probe_wire.decode),
    "host wire": Reader(modules=(hostwire,), makes=lambda: hostwire.Unframer().feed),
    "host wire frames": _whole(hostwire, read=hostwire.decode_from_agent),
    "module memory": _whole(module_kinds, cmis, sff8472, sff8636, thresholds, read=module_kinds.parse_module),
    "chronyc": _text(wall, read=wall.parse_tracking),
    "pmc": _text(wall, read=lambda text: wall.parse_management(f"RESPONSE MANAGEMENT\n{text}")),
    "retransmissions": _text(counters, read=counters.parse_retransmissions),
    "IP counters": _text(ip_counters, read=ip_counters.parse_ip),
    "IPv6 counters": _text(ip_counters, read=ip_counters.parse_ip6),
    "firmware": _whole(firmware, read=lambda data: firmware.parse_state("eth0", data)),
    "requests for sockets": _whole(sockets, read=sockets.decode_request),
    "settings": _text(host_settings, read=host_settings.parse_setting),
    "journals": _whole(journal_file, read=lambda data: journal_file.read(data, None)),
    "spools": _whole(spool_file, read=spool_file.read),
}

EXEMPT: Mapping[str, str] = {
    "hwd.cli.commands.faults": "words of the operator's own command line, bounded by the system",
    "hwd.cli.commands.block": "words of the operator's own command line, bounded by the system",
    "hwd.config.playbook.leaf_steps": "steps of playbooks, which are fed whole",
    "hwd.config.scenario": "a part of testbed files: YAML that is fed, under pydantic",
    "hwd.model.fault": "JSON under msgspec Structs, as the messages of agents, which are fed",
    "hwd.twin.host_twin": "names of settings, looked up",
    "hwd.twin.twin_settings": "words of the operator's own command line, bounded by the system",
    "hwd_agents.bus.mqtt": "one URL of the operator",
    "hwd_agents.sources.twin.hostwire_server": "names of settings, looked up; the frames are fed",
    "hwd_agents.sources.twin.played": "names of settings, looked up",
    "hwd_agents.switches.target": "one word of a job, looked up; its line is at most 64 kB",
    "hwd_drivers.conformance.answer_tap": "hands bytes on",
    "hwd_drivers.devices.tl1_client": "hands answers to readers that are fed",
    "hwd_drivers.families.polatis.netconf.client": "hands answers to readers that are fed",
}
"""Modules with a reader that is not fed, and why."""


def test_every_module_that_reads_is_fed_or_says_why_not() -> None:
    fed = {module.__name__ for reader in READERS.values() for module in reader.modules}
    reading = {name for name in _modules() if name not in fed}
    assert sorted(reading) == sorted(EXEMPT)


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
    except (HwdError, ValueError):
        pass
    return time.process_time() - started_s


def _modules() -> Iterator[str]:
    """Modules that have a public parser, decoder or reader of text or bytes."""
    for package, folder in (("hwd_drivers", "drivers"), ("hwd_agents", "agents"), ("hwd", ".")):
        for path in sorted((ROOT / folder / package).rglob("*.py")):
            if any(_reads(node) for node in ast.parse(path.read_text()).body):
                yield ".".join(path.relative_to(ROOT / folder).with_suffix("").parts)


def _reads(node: ast.stmt) -> bool:
    match node:
        case ast.ClassDef(name=name, body=body) if not name.startswith("_"):
            return any(_reads(each) for each in body)
        case ast.FunctionDef(name=name, args=args):
            if not (name == "feed" or name.split("_")[0] in ("parse", "decode", "read", "unquote", "substitute")):
                return False
            kinds = {ast.unparse(each.annotation) for each in args.args if each.annotation is not None}
            return bool(kinds & {"str", "bytes", "Answer", "Reply", "Sequence[str]", "list[str]"})
        case _:
            return False
