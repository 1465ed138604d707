"""Shapes of the parts of a testbed file. Each part is validated separately, so that one bad part hides no other."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from hwd.model.rules import DriftPolicy
from hwd.model.testbed import ModuleStandard, PassiveKind, PortState, Setting

NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,62}$"
"""Fits an MQTT topic, a host name, a file name and our own texts (no dot, colon, slash, blank)."""
GROUP = r"^[a-z_][a-z0-9_-]{0,31}$"
"""As groupadd(8) allows."""
PORT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$"
"""At most 15 characters, as the kernel has it for an interface."""

Whole = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Count = Annotated[int, Field(strict=True, ge=1, le=4096)]
Limit = Annotated[int, Field(strict=True, ge=1, le=10**12)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Dbm = Annotated[float, Field(strict=True, ge=-60, le=40, allow_inf_nan=False)]
Db = Annotated[float, Field(strict=True, ge=0, le=60, allow_inf_nan=False)]
Metres = Annotated[float, Field(strict=True, ge=0, le=1_000_000, allow_inf_nan=False)]
Late = Annotated[float, Field(strict=True, ge=0, le=60, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
Label = Annotated[
    str,
    BeforeValidator(
        lambda value: str(value) if isinstance(value, int | float) else value, json_schema_input_type=str | int | float
    ),
    Field(min_length=1, max_length=100),
]
OneOrMore = Annotated[
    tuple[Label, ...],
    BeforeValidator(
        lambda value: value if isinstance(value, list | tuple) else [value],
        json_schema_input_type=str | int | list[str | int | float],
    ),
]


class Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class SecretEntry(Entry):
    """The place of a secret: exactly one of the two."""

    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("name one place of the secret: {env: NAME} or {file: PATH}")
        return self


class LoginEntry(Entry):
    user: Text
    password: SecretEntry | None = None


class SwitchTwinEntry(Entry):
    """The twin of a switch; `options` are checked against those of the driver's twins."""

    timing: Text = "ideal"
    seed: Whole = 0
    options: dict[str, Any] = {}


class SwitchEntry(Entry):
    driver: Text
    model: Text
    address: Text | None = None
    twin: SwitchTwinEntry | None = None
    size: Label | None = None
    login: LoginEntry | None = None
    options: dict[str, Any] = {}
    owner: Text | None = None


class ClockEntry(Entry):
    offset_s: Annotated[float, Field(strict=True, ge=-1e6, le=1e6)] = 0.0
    drift_ppm: Annotated[float, Field(strict=True, ge=-1000, le=1000)] = 0.0


class HostTwinEntry(Entry):
    """The twin of a host; `machine`: the IP address at which a host that is a virtual machine reaches the rack's."""

    kernel: bool = False
    machine: Text | None = None
    timing: Text = "ideal"
    seed: Whole = 0
    clock: ClockEntry = ClockEntry()


class GpuEntry(Entry):
    numa: Whole | None = None


class ModuleEntry(Entry):
    """A type of the table, or a custom name with all values. `part`: as in its memory; `los_s` and `monitor_s`: the
    delays of its readings.
    """

    type: Text
    lanes: Annotated[int, Field(strict=True, ge=1, le=16)] | None = None
    parallel: bool | None = None
    tx_min_dbm: Dbm | None = None
    tx_max_dbm: Dbm | None = None
    rx_min_dbm: Dbm | None = None
    rx_max_dbm: Dbm | None = None
    los_assert_dbm: Dbm | None = None
    los_deassert_dbm: Dbm | None = None
    memory: ModuleStandard | None = None
    part: Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,14}[!-~])?$")] | None = None
    los_s: Late | None = None
    monitor_s: Late | None = None


class NicEntry(Entry):
    match: dict[str, Any] = {}
    interface: Annotated[str, Field(pattern=r"^[^\s/]{1,15}$")] | None = None
    rdma: Text | None = None
    rail: Whole | None = None
    numa: Whole | None = None
    gpus: tuple[Whole, ...] = ()
    rate_mbit_s: Annotated[float, Field(ge=1, le=3_200_000)] | None = None
    ip: Text | None = None
    module: Annotated[
        ModuleEntry,
        BeforeValidator(
            lambda value: {"type": value} if isinstance(value, str) else value,
            json_schema_input_type=str | ModuleEntry,
        ),
    ]


class SshEntry(Entry):
    """The SSH address of a host; a plain text is its `address`. `jump`: the host to connect through,
    with the same key.
    """

    address: Text
    key: Text | None = None
    known_hosts: Text | None = None
    jump: Text | None = None


class HostEntry(Entry):
    """A host; `nics` are validated one by one. `jobs`: the host's group of users that may set the switches it owns."""

    jobs: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,31}$")] | None = None
    ssh: (
        Annotated[
            SshEntry,
            BeforeValidator(
                lambda value: {"address": value} if isinstance(value, str) else value,
                json_schema_input_type=str | SshEntry,
            ),
        ]
        | None
    ) = None
    twin: HostTwinEntry | None = None
    gpus: dict[Annotated[int, Field(ge=0, le=1023)], GpuEntry] = {}
    nics: dict[str, Any] = {}
    groups: OneOrMore = ()
    region: Label | None = None


class PacketSwitchEntry(Entry):
    """A packet switch; `rate_mbit_s`: of each port, each way, on kernel twins, whose filter counts up to 34 Gbit/s."""

    ports: Count
    rate_mbit_s: Annotated[float, Field(ge=1, le=34_000)] | None = None


class CompositeEntry(Entry):
    """A composite switch; `ports`: names of its ends, and the ends of elements that they are."""

    ports: Annotated[dict[str, Text], Field(min_length=1)]


class PassiveEntry(Entry):
    kind: PassiveKind
    ports: Count | None = None
    loss_db: Db


class FibreEntry(Entry):
    """The long form of a fibre; ends are checked by hwd.config.testbed.fibres."""

    source: Text = Field(alias="from")
    target: Text = Field(alias="to")
    via: OneOrMore = ()
    length_m: Metres | None = None
    loss_db: Db = 0.0
    label: Label | None = None


class PortNoteEntry(Entry):
    state: PortState
    why: str = ""
    until: Label | None = None


class InterlockEntry(Entry):
    """An interlock; `override`: whether who applies a plan may override it, with a reason."""

    override: Literal["allowed", "never"] = "never"


class InputPowerEntry(InterlockEntry):
    """The interlock of input power; `max_dbm`: by switch, the strongest light of one fibre, in place of its model's."""

    max_dbm: dict[str, Dbm] = {}


class WearEntry(InterlockEntry):
    """The limits of wear by switch: how often each element, or the mirror of each end, may move, in its life and in an
    hour.
    """

    moves: dict[str, Limit] = {}
    moves_per_hour: dict[str, Limit] = {}


class RateEntry(InterlockEntry):
    """The interlock of rates; `changes`: by switch, how often it may be changed in `per_s` seconds."""

    changes: dict[str, Limit] = {}
    per_s: Annotated[float, Field(strict=True, ge=0.001, le=86_400, allow_inf_nan=False)] = 60.0


class ForbiddenPairEntry(InterlockEntry):
    """The interlock of pairs: `h0.eth0 <-> h1.eth0` or `ocs1:1A-2B`, each with the reason."""

    pairs: dict[str, Annotated[str, Field(max_length=500)]] = {}


class InterlocksEntry(Entry):
    """The interlocks of a plan beyond the limits of models and modules, and which of them may be overridden."""

    input_power: InputPowerEntry = Field(alias="input-power", default=InputPowerEntry())
    loss_budget: InterlockEntry = Field(alias="loss-budget", default=InterlockEntry())
    overload: InterlockEntry = InterlockEntry()
    port_state: InterlockEntry = Field(alias="port-state", default=InterlockEntry())
    wear: WearEntry = WearEntry()
    rate: RateEntry = RateEntry()
    forbidden_pair: ForbiddenPairEntry = Field(alias="forbidden-pair", default=ForbiddenPairEntry())
    transfer_in_flight: InterlockEntry = Field(alias="transfer-in-flight", default=InterlockEntry())


class LeasesEntry(Entry):
    """The rules of leases. `required`: who changes light needs a lease of each port whose light changes. `baseline`: at
    the end of a lease its ports get the crossconnects that they had before the first change under it.
    """

    required: bool = False
    baseline: bool = False


Days = Annotated[int, Field(strict=True, ge=1, le=36_500)]


class TransfersEntry(Entry):
    """The time limits of transfers. `longest_s`: the longest phase that a process may claim ports for. `drain_s`: how
    long a way back waits for the end of the transfers on its ports before it cuts them.
    """

    longest_s: Annotated[float, Field(strict=True, ge=1, le=86_400, allow_inf_nan=False)] = 600.0
    drain_s: Annotated[float, Field(strict=True, ge=0, le=60, allow_inf_nan=False)] = 2.0


class RetentionEntry(Entry):
    """The days after which documents outside of runs are deleted: `history_days` of those that `hwd history` and
    `hwd rollback --to` read, `documents_days` of all others. Without a key: never.
    """

    documents_days: Days | None = None
    history_days: Days | None = None


RankNumber = Annotated[int, Field(strict=True, ge=0, le=255)]
JobSeconds = Annotated[float, Field(strict=True, ge=0.1, le=86_400, allow_inf_nan=False)]


class CommandEntry(Entry):
    """A command line in words; the first is a path. `user`: as whom it runs, root too. `arguments`: whether a caller
    may add some.
    """

    command: Annotated[tuple[Text, ...], Field(min_length=1, max_length=100)]
    user: Annotated[str, Field(pattern=GROUP)]
    arguments: bool = False

    @field_validator("command")
    @classmethod
    def _is_path(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command[0].startswith("/"):
            raise ValueError(f"write the whole path of {command[0]}, such as /usr/bin/{command[0]}")
        return command


class ProgramEntry(CommandEntry):
    """A program that may run on hosts, in the words of its command line; the first is a path. `user`: as whom, root
    too. `arguments`: whether a caller may add some. `hosts`: all, where they are left out. `within_s`: it is ended
    then.
    """

    hosts: OneOrMore | None = None
    within_s: Annotated[float, Field(strict=True, ge=1, le=604_800, allow_inf_nan=False)] = 3600.0


class GroupEntry(Entry):
    """Ranks that communicate, in their order. `dimension`: of parallelism, `dp`, `tp`, `pp`, `ep`."""

    ranks: Annotated[tuple[RankNumber, ...], Field(min_length=1, max_length=256)]
    dimension: Annotated[str, Field(max_length=20)] = ""


class JobsEntry(CommandEntry):
    """A job: `command` runs on each of `hosts`, `ranks_per_host` times, as `user`. `plane`: its control plane, with
    arguments, `rotor period_s=0.5`. `shim`: what decides on the hosts which operations are asked for. `groups`: ranks
    that communicate; without it all, as `world`. `arguments`: whether a caller may add some to the command.

    `within_s`: it is ended then. `arrive_within_s`: for all ranks to come. `answer_within_s`: for the plane to answer a
    rank. `ready_within_s`: for links to be ready after a switch. `plane_within_s`: for the plane to answer an event, in
    `plane_memory_mib` of memory: else it is ended, and the job fails. `fallback`: whether the plane may give up its
    light for one ring over all ports.
    """

    hosts: OneOrMore
    ranks_per_host: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    plane: Text
    shim: Text = "ask"
    groups: dict[str, tuple[RankNumber, ...] | GroupEntry] = {}
    fallback: bool = False
    within_s: Annotated[float, Field(strict=True, ge=1, le=518_400, allow_inf_nan=False)] = 3600.0
    arrive_within_s: JobSeconds = 60.0
    answer_within_s: JobSeconds = 60.0
    ready_within_s: JobSeconds = 30.0
    plane_within_s: JobSeconds = 1.0
    plane_memory_mib: Annotated[int, Field(strict=True, ge=16, le=1 << 20)] = 1024


class TestbedFile(Entry):
    """The top of the file; its sections are validated entry by entry."""

    __test__ = False

    testbed: Annotated[str, Field(pattern=NAME)]
    switches: dict[str, Any] = {}
    packet_switches: dict[str, Any] = {}
    passives: dict[str, Any] = {}
    composites: dict[str, Any] = {}
    hosts: dict[str, Any] = {}
    fibres: list[Any] = []
    ports: dict[str, Any] = {}
    interlocks: dict[str, Any] = {}
    leases: LeasesEntry = LeasesEntry()
    transfers: TransfersEntry = TransfersEntry()
    retention: RetentionEntry = RetentionEntry()
    host_actions: tuple[Setting, ...] = ()
    programs: dict[str, Any] = {}
    jobs: dict[str, Any] = {}
    drift: Annotated[
        DriftPolicy,
        Field(description="what the daemon does where a switch differs from the desired state by no command of hwd"),
    ] = DriftPolicy.REPORT
    access_group: Annotated[
        str | None,
        Field(pattern=GROUP, description="a group of the daemon's machine whose users may read the daemon's token"),
    ] = None
