"""`hwd fault` injects faults into the twins of a running rack, and clears them."""

import json as json_text
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hwd.cli import completion as completing
from hwd.cli.daemon import connect
from hwd.cli.options import Json, Url
from hwd.cli.output import Output
from hwd.cli.times import IN_MOST_S, UNITS_S, in_seconds

commands = typer.Typer(rich_markup_mode=None)


@commands.command(
    epilog="Example: hwd fault ocs1 slow seconds=0.5; hwd fault h0.eth0 slow-firmware seconds=4; hwd fault clear"
)
def fault(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBJECT FAULT K=V",
            autocompletion=completing.subjects,
            help="A switch, a NIC port or a host; the fault; its fields. Or one JSON object. Nothing: list the faults.",
        ),
    ] = None,
    testbed: Annotated[
        str | None,
        typer.Option(
            "--testbed",
            metavar="NAME",
            help="Default: that of the daemon of --url or HWD_URL, else the one whose twin rack is running.",
        ),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Inject faults into twins: slow or stuck switches, slow firmware, cut fibres, weak light, flaps, killed agents,
    stepped clocks. `clear` ends those of one subject, or all.
    """
    from hwd.twin.control import ask, ask_present

    output = Output(json=json)
    rack = _find_rack(testbed or _testbed_of_daemon(url), words or [])
    control = Path(rack.control)
    if not words:
        present = ask_present(control)
        for one in present:
            output.say(str(one))
        if not present:
            output.note(f"{rack.testbed}: no fault is set")
        output.data(present)
        return
    wanted = parse_words(words, rack.hosts)
    ask(control, wanted)
    output.say(f"{rack.testbed}: {wanted}")
    output.data(wanted)


def parse_words(words: Sequence[str], hosts: Collection[str]) -> Any:
    """The fault in `ocs1 slow seconds=0.5`, in `clear`, or in one JSON object; `hosts` distinguishes hosts from
    switches. Raises ConfigError.
    """
    from hwd.model.fault import FAULTS, HostFault, PortFault, SwitchFault, decode_fault, parse_fault
    from hwd_drivers.core.errors import ConfigError

    if words[0].startswith("{"):
        return decode_fault(" ".join(words).encode())
    if words[0] in FAULTS and words[0] not in hosts:
        words = ["", *words]
    subject, name, *pairs = [*words, ""] if len(words) == 1 else words
    if name not in FAULTS:
        raise ConfigError(f"{subject}: {name!r} is no fault; there are {', '.join(FAULTS)}")
    kind = FAULTS[name]
    data: dict[str, Any] = {"fault": name}
    if issubclass(kind, SwitchFault):
        data["switch"] = subject
    elif issubclass(kind, PortFault):
        data["port"] = subject
    elif issubclass(kind, HostFault):
        data["host"] = subject
    elif subject:
        data["port" if "." in subject else "host" if subject in hosts else "switch"] = subject
    if not subject and name != "clear":
        raise ConfigError(f"{name}: name what misbehaves first, such as: hwd fault {_example(kind)} {name}")
    texts = {key for key, kind in kind.__annotations__.items() if kind is str}
    durations = {key for key in kind.__struct_fields__ if key == "seconds" or key.endswith("_s")}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{pair!r}: write KEY=VALUE, such as seconds=0.5")
        if key in durations and value[-1:] in UNITS_S:
            data[key] = in_seconds(value, option=f"{name} {key}", least_s=-IN_MOST_S)  # a clock steps backward, too
        else:
            data[key] = value if key in texts else _value(key, value)
    return parse_fault(data)


def _testbed_of_daemon(url: str | None) -> str | None:
    """The testbed of the daemon of --url or HWD_URL; None where neither is set."""
    import os

    if url is None and not os.environ.get("HWD_URL"):
        return None
    with connect(url) as hwd:
        return hwd.status().testbed


def _find_rack(testbed: str | None, words: Sequence[str]) -> Any:
    """The running rack; of several the one with the subject in `words`."""
    from hwd.config.run_files.places import rack_of, racks
    from hwd_drivers.core.errors import ConfigError, LinkError

    if testbed is not None:
        rack = rack_of(testbed)
        if rack is None:
            raise LinkError(f"testbed {testbed}: no twin rack of it is up. Start it with: hwd twin up TESTBED")
        return rack
    found = list(racks())
    if not found:
        raise LinkError("no twin rack is up on this machine. Start one with: hwd twin up TESTBED")
    if len(found) > 1 and words:
        found = [rack for rack in found if words[0].partition(".")[0] in rack.addresses] or found
    if len(found) > 1:
        raise ConfigError(
            f"several twin racks are up: {', '.join(one.testbed for one in found)}. Name one with --testbed"
        )
    return found[0]


def _value(key: str, text: str) -> Any:
    """Convert a word: on, off, a number, a list of ends or crossconnects, else a text."""
    if key in ("ends", "remove", "add"):
        return text.split(",") if text else []
    if text in ("on", "off"):
        return text == "on"
    try:
        return json_text.loads(text)
    except ValueError:
        return text


def _example(kind: type[Any]) -> str:
    fields = kind.__struct_fields__
    return "ocs1" if "switch" in fields else "h0.eth0" if "port" in fields else "h0"
