"""Jobs, in the answers of the API."""

from statistics import median

from msgspec import field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.plural import plural


class JobRankStatus(ApiValue, frozen=True, kw_only=True):
    """A rank. `state`: `starting`, `running`, `waiting` for its plane, `sending`, or how it ended."""

    rank: int
    host: str
    gpu: int | None
    state: str
    operation: str = ""


class JobOutput(ApiValue, frozen=True, kw_only=True):
    """The output of a rank, both streams as they came, from byte `first` on; `next`: where to go on."""

    data: bytes
    first: int
    next: int


class JobStatus(ApiValue, frozen=True, kw_only=True):
    """A job. `at`: the target that its light is at, empty where it is at none, or where its prepared set has left it or
    does not know; `moving`: where it is on the way to. Where its plane moves regions, all of them, with commas.

    `not_ready`: the last target of each region and why its light was not brought to it; empty where it was, and at
    first after a restart of the daemon. `failed`: the hosts and NIC ports of its part of the rack that its plane was
    told to have failed, and not to have recovered. `moved`: how its light has left a target that it was at, by whom,
    and why; empty where it has not. `moves_of_others`: the last times that this was so, and that it was brought back.
    `why`: why it did not succeed. `lease` and `prepared_set` are empty where it holds none.
    """

    id: str
    entry: str
    state: str
    why: str
    plane: str
    by: str
    lease: str
    prepared_set: str
    at: str
    moving: str
    not_ready: str
    failed: list[str]
    moved: str = ""
    moves_of_others: list[str] = field(default_factory=list)
    started_wall_ns: int
    ended_wall_ns: int | None
    ranks: list[JobRankStatus]

    @property
    def ended(self) -> bool:
        return self.ended_wall_ns is not None

    @override
    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"job {self.id} of {self.by}: {self.entry}, {plural(len(self.ranks), 'rank')}, {self.state}{why}"


class JobBreach(ApiValue, frozen=True, kw_only=True):
    """A promise that was not kept in an operation of a rank.

    `kind`: `early` (it began before its plane let it go), `dark` (its light was not there), `moving` (its light was
    being moved), `unready` (its plane let it go before its links were seen ready), `cut` (a reconfiguration took its
    light), `bytes` (bytes went another way). `at_ns`: of the daemon's clock.
    """

    kind: str
    rank: int
    host: str
    operation: str
    what: str
    at_ns: int

    @override
    def __str__(self) -> str:
        return f"{self.kind}: rank {self.rank} on {self.host}, {self.operation}: {self.what}"


class JobVerification(ApiValue, frozen=True, kw_only=True):
    """Whether a job kept its promises, from the records. `measured`: operations that an agent saw from begin to end, or
    to the end; `unshown`: what the records do not show. Of long lists the first ones; the totals are of all.
    """

    job: str
    entry: str
    state: str
    operations: int
    measured: int
    reconfigurations: int
    breaches: list[JobBreach]
    breaches_total: int
    unshown: list[str]
    unshown_total: int

    @property
    def holds(self) -> bool:
        return not self.breaches_total and not self.unshown_total

    @override
    def __str__(self) -> str:
        light = f"{plural(self.reconfigurations, 'time')} light"
        counts = f"{plural(self.operations, 'operation')} ({self.measured} measured), {light}"
        return f"job {self.job} ({self.entry}), {self.state}: {counts}: {'holds' if self.holds else 'does not hold'}"


class JobEfficiencyRow(ApiValue, frozen=True, kw_only=True):
    """How much of the capacity of a job's network became data that its ranks go on with: `eta` = `gamma` x `delta` x
    `theta`, of the `job`, of one `phase` or of one `kind` of operation (`scope`).

    `operations`: those that are in it; `left_out`: those of which that cannot be told. `seconds`: in which one of them
    at least was under way. `gamma` = effective / received bytes, `delta` = received / forwarded, `theta` = forwarded /
    capacity, `eta` = effective / capacity. Those that cannot be told are null, for `why`.
    """

    scope: str
    name: str
    operations: int
    left_out: int
    seconds: float
    effective_bytes: int
    received_bytes: int
    forwarded_bytes: int
    capacity_bytes: float | None
    gamma: float | None
    delta: float | None
    theta: float | None
    eta: float | None
    why: str

    @property
    def factors(self) -> tuple[float | None, ...]:
        """gamma, delta, theta and eta."""
        return self.gamma, self.delta, self.theta, self.eta


class JobEfficiency(ApiValue, frozen=True, kw_only=True):
    """The efficiency of a job, so far where it has not ended. `operations`: all between hosts, each once for all its
    ranks. `unshown`: why operations were left out, and how many.
    """

    job: str
    entry: str
    state: str
    operations: int
    rows: list[JobEfficiencyRow]
    unshown: list[str]

    @property
    def whole(self) -> JobEfficiencyRow:
        """The row of the job."""
        return self.rows[0]

    @override
    def __str__(self) -> str:
        whole = self.whole
        counts = f"{whole.operations} of {self.operations} operations between hosts"
        return f"job {self.job} ({self.entry}), {self.state}: {counts}, in {whole.seconds:.3f} s"


class JobIteration(ApiValue, frozen=True, kw_only=True):
    """An iteration of a job's training, as its program says it. `seconds`: to the begin of the next one, of the last
    one to its last end; null while that is open. `held_s`: how long its operations waited for their plane in all, once
    all their ranks had come.
    """

    iteration: int
    seconds: float | None
    operations: int
    held_s: float


class JobMove(ApiValue, frozen=True, kw_only=True):
    """A move of a job's light, `at_s` after the first thing that its plane was told. `links`: new ones; null where its
    plane had declared the target, or one before it, beforehand. `held_s`: how long operations waited for it whose
    ranks had all come; the rest of `seconds` is hidden behind what ranks did. `held`: the one that waited longest.
    `why`: it was not ready.
    """

    target: str
    reconfiguration: str
    at_s: float
    seconds: float | None
    links: int | None
    held_s: float
    held: str
    why: str


class JobTraining(ApiValue, frozen=True, kw_only=True):
    """The iterations of a job, and the moves of its light, so far where it has not ended."""

    job: str
    entry: str
    plane: str
    state: str
    iterations: list[JobIteration]
    moves: list[JobMove]

    @property
    def links(self) -> int | None:
        """New ones of all moves; None where one move does not say it."""
        found = [one.links for one in self.moves]
        return None if None in found else sum(one or 0 for one in found)

    @override
    def __str__(self) -> str:
        seconds = [one.seconds for one in self.iterations if one.seconds is not None]
        middle = f", of {median(seconds):.4g} s (median)" if seconds else ""
        moved = f"{plural(len(self.moves), 'move')} of its light"
        if self.links is not None:
            moved += f", {plural(self.links, 'new link')}"
        iterations = plural(len(self.iterations), "iteration")
        return f"job {self.job} ({self.entry}), {self.state}: {iterations}{middle}; {moved}"


class JobDemandMatrix(ApiValue, frozen=True, kw_only=True):
    """The demand of hosts for each other in an all-to-all: `size_bytes[sender][receiver]`."""

    group: str
    index: int
    iteration: int | None
    layer: int | None
    size_bytes: list[list[int]]


class JobDemand(ApiValue, frozen=True, kw_only=True):
    """The demand of a job's all-to-alls, in the order in which they came. `hosts`: of the rows and columns."""

    job: str
    entry: str
    hosts: list[str]
    matrices: list[JobDemandMatrix]
