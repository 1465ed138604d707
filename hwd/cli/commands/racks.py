"""`hwd demo`, `check`, `schema`, `serve`, `twin`: files, daemon, twins."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hwd.cli.options import Json
from hwd.cli.output import Output
from hwd.model.plural import plural
from hwd_drivers.core.own_python import uncollected

_twin = typer.Typer(
    help="Simulated racks and devices.",
    epilog="Example: hwd twin up examples/opus-testbed.yaml",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TestbedFile = Annotated[Path, typer.Argument(metavar="TESTBED", help="A testbed file.")]
ScenarioFile = Annotated[
    Path | None, typer.Option("--scenario", metavar="FILE", help="Faults of the twins, and their times.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say every step.")]


def add_to(program: typer.Typer) -> None:
    program.command(epilog="Example: hwd demo")(demo)
    program.command(epilog="Example: hwd check examples/opus-testbed.yaml playbooks/smoke.yaml")(check)
    program.command(epilog="Example: hwd schema playbook > playbook.schema.json")(schema)
    program.command(epilog="Example: hwd serve examples/opus-testbed.yaml --http 127.0.0.1:8642")(serve)
    program.add_typer(_twin, name="twin")


def demo(
    report: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file for the report.")] = Path(
        "demo-report.html"
    ),
    json: Json = False,
) -> None:
    """Run a whole twin rack and its main experiment in one process tree, under a minute."""
    from hwd_drivers.core.clock import SystemClock

    clock = SystemClock()
    began_ns = clock.monotonic_ns()  # the imports for the report take seconds
    from hwd.cli.commands.demo import main

    raise typer.Exit(main(report=report, json=json, clock=clock, began_ns=began_ns))


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Testbeds, playbooks, topologies, scenarios.")],
    json: Json = False,
) -> None:
    """Report all problems of files, with file and line. Exit status 2 when there are more than warnings.

    Playbooks and topologies are checked against the testbed, where one is among the files. A name without a path is a
    playbook that is part of hwd, where no such file exists here.
    """
    from hwd.cli.write_target import busy
    from hwd.config.shipped_file import shipped_file
    from hwd.daemon.installed_drivers import check as check_files

    output = Output(json=json)
    there = (
        file if "/" in file or "." in file or Path(file).exists() else shipped_file("playbooks", file) for file in files
    )
    with busy(output, "reading files"):
        problems = check_files(list(there))
    errors = sum(not problem.warning for problem in problems)
    for problem in problems:
        output.say(str(problem))
    output.note(f"{plural(len(files), 'file')}: {plural(errors, 'error')}, {plural(len(problems) - errors, 'warning')}")
    output.data(
        [
            {
                "file": problem.file,
                "line": problem.line,
                "path": problem.path,
                "text": problem.text,
                "warning": problem.warning,
            }
            for problem in problems
        ]
    )
    if errors:
        raise typer.Exit(2)


def schema(
    kind: Annotated[str, typer.Argument(metavar="testbed|playbook|scenario|document|message", help="Of what.")],
    json: Json = False,
) -> None:
    """Print the JSON Schema of testbed, playbook or scenario files, for editors, or of documents or MQTT messages,
    for programs. Rules over a whole file are only checked by `hwd check`.
    """
    from hwd.config.json_schema import SCHEMAS, json_schema
    from hwd.config.yaml.file_problem import nearest
    from hwd_drivers.core.errors import ConfigError

    if kind not in SCHEMAS:
        raise ConfigError(f"schema {kind!r}: unknown; {nearest(kind, SCHEMAS)}")
    Output(json=True).data(json_schema(kind))


def serve(
    testbed: TestbedFile,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Default: ~/.local/state/hwd/<testbed>.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Default: 127.0.0.1, port 8642 or a free one. Other addresses need HWD_TOKENS.",
        ),
    ] = None,
    mqtt: Annotated[
        str | None,
        typer.Option(
            "--mqtt",
            metavar="BROKER",
            help="`embedded`, `embedded:HOST:PORT` for agents elsewhere, or mqtt://host:port. "
            "Default: HWD_MQTT, the file that HWD_MQTT_FILE names, else embedded. "
            "Put a URL with a password there: everybody can read a command line.",
        ),
    ] = None,
    no_twin: Annotated[
        bool, typer.Option("--no-twin", help="Do not start the twin rack; `hwd twin up` runs it.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Run the daemon of a testbed, until Ctrl-C. Its twins, where it has any, are started as a process of their own."""
    with uncollected():
        from hwd.daemon.process_main import log_to_stderr, run_until_stopped
        from hwd.daemon.serve import ServeOptions
        from hwd.daemon.serve import serve as serve_testbed

    log_to_stderr(verbose=verbose)
    options = ServeOptions(testbed=testbed, data=data, http=http, mqtt=mqtt, twin=not no_twin)
    run_until_stopped(serve_testbed(options))


@_twin.command(epilog="Example: hwd twin up examples/opus-testbed.yaml")
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


@_twin.command(epilog="Example: hwd twin down examples/opus-testbed.yaml")
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


@_twin.command(
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


@_twin.command("serve", epilog="Example: hwd twin serve polatis-6000 --listen 127.0.0.1:3082 --set size=32x32")
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


@_twin.command("settings", epilog="Example: hwd twin settings polatis-6000")
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
