"""The command `hwd demand`: what hosts send each other, stored in the daemon for topologies that read it."""

from pathlib import Path
from typing import Annotated, Final

import typer

from hwd.cli import completion as completing
from hwd.cli.daemon import connect, me
from hwd.cli.options import Json, Url, group
from hwd.cli.output import Output, size
from hwd.cli.write_target import busy
from hwd.model.demand import FILE_BYTES_MAX, DemandMatrix, DemandSummary
from hwd.model.local_time import local_time
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import read_user_file

HOSTS_SHOWN: Final = 12
"""The largest matrix that is printed whole; of others the largest entries are."""
ENTRIES_SHOWN: Final = 20

commands = group(
    "demand",
    help="Demand: what hosts send each other, by layer and micro-batch, for topologies that read it.",
    epilog="Example: hwd demand add moe gates.npz --hosts h0,h1,h2,h3 --experts-per-gpu 1 --gpus-per-server 8",
)
_Layer = Annotated[int, typer.Option("--layer", metavar="L", min=0, help="Which layer.")]
_Microbatch = Annotated[int, typer.Option("--microbatch", metavar="M", min=0, help="Which micro-batch.")]
_Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Of a stored demand, as `hwd demand list` shows it.", autocompletion=completing.demands
    ),
]


@commands.command(
    epilog="Example: hwd demand add moe gates.npz --hosts h0,h1,h2,h3 --experts-per-gpu 1 --gpus-per-server 8"
)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What topologies call it: `demand=NAME`.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or NPZ, of hosts or of experts, in bytes.")],
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts", metavar="H0,H1,...", help="The servers of its rows, in order; not where it names hosts."
        ),
    ] = None,
    experts_per_gpu: Annotated[
        int | None, typer.Option("--experts-per-gpu", metavar="N", min=1, help="Where its rows are experts.")
    ] = None,
    gpus_per_server: Annotated[
        int | None, typer.Option("--gpus-per-server", metavar="N", min=1, help="Where its rows are experts.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Also where there is one of that name.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Store the demand of a file, all of it or nothing: `hwd plan mfabric demand=NAME layer=3` reads it then."""
    output = Output(json=json)
    data = _content(file)
    with busy(output, "reading the demand"), connect(url) as hwd:
        added = hwd.add_demand(
            name,
            data,
            hosts=[host.strip() for host in hosts.split(",")] if hosts else (),
            experts_per_gpu=experts_per_gpu,
            gpus_per_server=gpus_per_server,
            replace=replace,
            by=me(),
        )
    output.say(f"{added} added")
    output.data(added)


@commands.command("list", epilog="Example: hwd demand list")
def list_(url: Url = None, json: Json = False) -> None:
    """Stored demands: hosts, layers, bytes in all, and who added them when."""
    output = Output(json=json)
    with connect(url) as hwd:
        found = hwd.demands()
    if not found:
        output.say("no stored demand. `hwd demand add NAME FILE` adds one")
    else:
        output.table(
            ("demand", "hosts", "experts", "layers", "micro-batches", "bytes", "stored", "added", "by"),
            [_row(one) for one in found],
        )
    output.data(found)


@commands.command(epilog="Example: hwd demand show moe --layer 3")
def show(
    name: _Name,
    layer: _Layer = 0,
    microbatch: _Microbatch = 0,
    url: Url = None,
    json: Json = False,
) -> None:
    """One matrix, in bytes: who sends in rows, who receives in columns; of many hosts its largest entries."""
    output = Output(json=json)
    with connect(url) as hwd:
        found = hwd.demand(name, layer=layer, microbatch=microbatch)
    output.say(str(found))
    _show(output, found)
    output.data(found)


@commands.command(epilog="Example: hwd demand links moe --layer 3 --degree 6 --eps-ports 2")
def links(
    name: _Name,
    layer: _Layer = 0,
    microbatch: _Microbatch = 0,
    degree: Annotated[int, typer.Option("--degree", metavar="N", min=0, help="Optical NIC ports of each host.")] = 3,
    eps_ports: Annotated[
        int, typer.Option("--eps-ports", metavar="N", min=0, help="Its NIC ports on packet switches.")
    ] = 1,
    rate_mbit_s: Annotated[
        float, typer.Option("--rate", metavar="MBIT/S", min=1e-3, help="Of each NIC port, in Mbit/s.")
    ] = 100_000.0,
    variant: Annotated[str, typer.Option("--variant", metavar="skip|stop", help="Of ReconfigureOCS.")] = "skip",
    fold: Annotated[str, typer.Option("--fold", metavar="sum|max", help="How both directions become one.")] = "sum",
    json: Json = False,
    url: Url = None,
) -> None:
    """The links that mFabric gives to a demand, how long an all-to-all takes over them, the least that any links could
    do (up to 16 hosts), and a bound below all. Nothing moves.
    """
    import numpy as np

    from hwd.mfabric.completion import Capacity
    from hwd.mfabric.demand import Fold
    from hwd.mfabric.link_choice import link_choice
    from hwd.mfabric.reconfigure_ocs import Variant

    for text, kind, option in ((variant, Variant, "--variant"), (fold, Fold, "--fold")):
        if text not in [*kind]:
            raise ConfigError(f"{option} {text}: is none of {', '.join(kind)}")
    output = Output(json=json)
    with connect(url) as hwd:
        found = hwd.demand(name, layer=layer, microbatch=microbatch)
    count = len(found.hosts)
    capacity = Capacity(
        link_mbit_s=rate_mbit_s, degrees=(degree,) * count, eps_mbit_s=(eps_ports * rate_mbit_s,) * count
    )
    with busy(output, "looking for the best links"):
        chosen = link_choice(found.hosts, np.array(found.bytes), capacity, variant=Variant(variant), fold=Fold(fold))
    output.say(f"{found}: {chosen}")
    output.table(("host", "host", "links"), [(one.one, one.other, one.count) for one in chosen.links])
    output.data(chosen)


@commands.command(epilog="Example: hwd demand remove moe")
def remove(name: _Name, url: Url = None, json: Json = False) -> None:
    """Remove a stored demand. Plans that were made of it, and light, stay as they are."""
    output = Output(json=json)
    with connect(url) as hwd:
        removed = hwd.remove_demand(name)
    output.say(f"{removed} removed")
    output.data(removed)


def _content(file: Path) -> bytes:
    """Raises ConfigError where it cannot be read, or is longer than a demand may be."""
    return read_user_file(file, most_bytes=FILE_BYTES_MAX, pipes=True, remedy="add it in parts, or as NPZ").data


def _row(one: DemandSummary) -> tuple[object, ...]:
    return (
        one.name,
        len(one.hosts),
        one.experts,
        len(one.layers),
        len(one.microbatches),
        f"{one.total_bytes:.6g}",
        size(one.stored_bytes),
        local_time(one.added_wall_ns, now_wall_ns=None),
        one.by,
    )


def _show(output: Output, found: DemandMatrix) -> None:
    if len(found.hosts) <= HOSTS_SHOWN:
        rows = [
            (host, *(f"{amount:.6g}" for amount in row)) for host, row in zip(found.hosts, found.bytes, strict=True)
        ]
        output.table(("from", *found.hosts), rows)
        return
    entries = [
        (amount, one, other)
        for one, row in zip(found.hosts, found.bytes, strict=True)
        for other, amount in zip(found.hosts, row, strict=True)
    ]
    largest = sorted(entries, key=lambda entry: -entry[0])[:ENTRIES_SHOWN]
    output.table(("from", "to", "bytes"), [(one, other, f"{amount:.6g}") for amount, one, other in largest])
