"""The command `hwd twin`: simulated racks and devices."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hwd.cli.options import Json, TestbedFile, Verbose, group
from hwd.cli.output import Output
from hwd_drivers.core.own_python import uncollected

ScenarioFile = Annotated[
    Path | None, typer.Option("--scenario", metavar="FILE", help="Faults of the twins, and their times.")
]

commands = group("twin", help="Simulated racks and devices.", epilog="Example: hwd twin up examples/opus-testbed.yaml")


@commands.command(epilog="Example: hwd twin up examples/opus-testbed.yaml")
def up(
    testbed: TestbedFile,
    process_hosts: Annotated[
        bool, typer.Option("--process-hosts", help="Hosts without kernel interfaces: needs no privileges.")
    ] = False,
    no_agents: Annotated[bool, typer.Option("--no-agents", help="Start no agents on the twin hosts.")] = False,
    scenario: ScenarioFile = None,
    verbose: Verbose = False,
) -> None:
    """Run the twin rack of a testbed: its simulated switches and hosts, and the light between them. Until Ctrl-C."""
    with uncollected():
        from hwd.config.run_files.places import run_dir
        from hwd.config.scenario import load_scenario
        from hwd.daemon.installed_drivers import load
        from hwd.daemon.process_main import log_to_stderr, run_until_stopped
        from hwd.model.fault_check import check_fault
        from hwd.twin.serve import serve_rack

    log_to_stderr(verbose=verbose)
    loaded = load(testbed).require()
    plan = load_scenario(scenario, check=partial(check_fault, testbed=loaded)).require() if scenario else None
    run_until_stopped(
        serve_rack(
            loaded,
            run_dir=run_dir(loaded.name),
            process_hosts=process_hosts,
            with_agents=not no_agents,
            scenario=plan,
        )
    )


@commands.command(epilog="Example: hwd twin down examples/opus-testbed.yaml")
def down(testbed: TestbedFile, json: Json = False) -> None:
    """Stop the twin rack of a testbed that runs in the background."""
    import os
    import signal

    from hwd.config.run_files.places import rack_of
    from hwd.daemon.installed_drivers import load
    from hwd_drivers.core.errors import LinkError

    output = Output(json=json)
    name = load(testbed).require().name
    rack = rack_of(name)
    if rack is None:
        raise LinkError(f"testbed {name}: no twin rack of it is up. Nothing to do")
    os.kill(rack.pid, signal.SIGTERM)
    output.say(f"twin rack {name} (pid {rack.pid}) is stopping")
    output.data({"testbed": name, "pid": rack.pid})


@commands.command(
    epilog="Example: hwd twin machine testbed.yaml h0 -- qemu-system-x86_64 -m 512 -drive file=h0.img",
    context_settings={"ignore_unknown_options": True},
)
def machine(
    testbed: TestbedFile,
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host with twin: {machine: ...}.")],
    command: Annotated[list[str], typer.Argument(metavar="QEMU...", help="How it is started, but for its data NICs.")],
    nic: Annotated[
        str, typer.Option("--nic", metavar="MODEL", help="Of its data NICs, as QEMU calls them.")
    ] = "virtio-net-pci",
) -> None:
    """Run QEMU with a virtual machine that is a host of the twin rack.

    Its data NICs are connected to the optical switches, and its agent finds its configuration at
    /sys/firmware/qemu_fw_cfg/by_name/opt/hwd/agent.yaml/raw. Rack and daemon must be running.
    """
    import os

    from hwd.config.run_files.places import daemon_of, rack_of, run_dir
    from hwd.daemon.installed_drivers import load
    from hwd.twin.virtual_machine import prepare_machine
    from hwd_drivers.core.errors import ConfigError

    loaded = load(testbed).require()
    name = loaded.name
    joining = prepare_machine(loaded, host, rack=rack_of(name), daemon=daemon_of(name), run_dir=run_dir(name), nic=nic)
    output = Output(json=False)
    for port, address in joining.nics.items():
        output.note(f"{host}.{port} has the hardware address {address}")
    try:
        os.execvp(command[0], [*command, *joining.arguments])
    except OSError as error:
        raise ConfigError(f"{command[0]}: cannot start it: {error.strerror}") from error


@commands.command("serve", epilog="Example: hwd twin serve polatis-6000 --listen 127.0.0.1:3082 --set size=32x32")
def serve_one(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of any driver, such as polatis-6000.")],
    listen: Annotated[
        str, typer.Option("--listen", metavar="PLACE", help="HOST:PORT, port 0 takes a free one; or serial:/tmp/ttyX.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="K=V", help="size, timing, seed, or what `hwd twin settings MODEL` lists."),
    ] = None,
    driver: Annotated[
        str | None,
        typer.Option("--driver", metavar="NAME", help="Which of its protocols is at --listen. Default: by the port."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="For `hwd fault`. Default: that of the model.")
    ] = None,
    scenario: ScenarioFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Run one simulated device alone on a port, until Ctrl-C. It speaks the bytes of the real one; `hwd fault` injects
    faults into it.
    """
    from hwd.daemon.process_main import log_to_stderr, run_until_stopped
    from hwd.twin.single import RunningTwin, serve_single
    from hwd.twin.twin_settings import TwinSettings

    output = Output(json=json)
    log_to_stderr(verbose=verbose)
    port = listen.rpartition(":")[2]
    twin = TwinSettings.parse(model, settings or [], driver=driver, port=int(port) if port.isdigit() else None)

    def say(serving: RunningTwin) -> None:
        more = "".join(f", {protocol} on {place}" for protocol, place in serving.others.items())
        output.say(f"{serving.name} listens on {serving.address} ({twin.spec.name}){more}; Ctrl-C ends it")
        output.line(
            {
                "name": serving.name,
                "model": model,
                "driver": twin.spec.name,
                "address": serving.address,
                "addresses": serving.addresses,
            }
        )

    run_until_stopped(serve_single(twin, say, listen=listen, name=name, scenario=scenario))


@commands.command("settings", epilog="Example: hwd twin settings polatis-6000")
def list_settings(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of any driver, such as polatis-6000.")],
    driver: Annotated[str | None, typer.Option("--driver", metavar="NAME", help="Default: the usual one.")] = None,
    json: Json = False,
) -> None:
    """List the options of a twin for `hwd twin serve MODEL --set` and a testbed's `twin: {options: ...}`."""
    from hwd.twin.twin_settings import describe

    output = Output(json=json)
    spec, rows = describe(model, driver=driver)
    output.note(f"{model}, driver {spec.name}")
    output.table(("setting", "default", "meaning"), rows)
    output.data([{"setting": key, "default": default, "meaning": meaning} for key, default, meaning in rows])
