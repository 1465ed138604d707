"""Client: the calls of `AsyncClient` for programs that wait. It raises the errors that the daemon raised.

with Client.find() as hwd:
    plan = hwd.plan(what="pairs rail=0")
    hwd.apply_hash(plan.hash)
    for state in hwd.follow(hwd.start_run(text=text, file="smoke.yaml").id):
        print(state)
"""

import math
import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hwd.client.async_client import AsyncClient
from hwd.client.event_stream import Event
from hwd.client.find import Whereabouts
from hwd.client.loop_thread import LoopThread
from hwd.model.program import ProgramNews
from hwd.model.run import RunStatus

P = ParamSpec("P")
T = TypeVar("T")


def waiting(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Client, P], T]":
    """The method of a `Client` that waits for the same call of its `AsyncClient`."""

    @wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._loop.run(method(client._client, *args, **kwargs))

    return call


class Client:
    """Close it, or use it as a context. Every call raises HwdError: LinkError when the daemon cannot be reached.

    Its event loop runs in a thread of its own, so it works where another loop is running, as in a notebook. Ctrl-C
    cancels the call that is waited for. Several threads may use one client.
    """

    def __init__(self, daemon: str | Whereabouts, *, token: str | None = None, within_s: float = math.inf) -> None:
        """`within_s`: see `AsyncClient`."""
        self._client = AsyncClient(daemon, token=token, within_s=within_s)
        self._loop = LoopThread("hwd:client")

    @classmethod
    def find(
        cls,
        url: str | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        testbed: str | None = None,
        within_s: float = math.inf,
    ) -> Self:
        """Find a daemon as `AsyncClient.find` does."""
        return cls(Whereabouts.find(url, environment, testbed=testbed), within_s=within_s)

    @property
    def url(self) -> str:
        return self._client.url

    def close(self) -> None:
        self._loop.close(self._client.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    status = waiting(AsyncClient.status)
    switches = waiting(AsyncClient.switches)
    hosts = waiting(AsyncClient.hosts)
    reconfigurations = waiting(AsyncClient.reconfigurations)
    documents = waiting(AsyncClient.documents)
    programs = waiting(AsyncClient.programs)
    signal_program = waiting(AsyncClient.signal_program)
    start_job = waiting(AsyncClient.start_job)
    stop_job = waiting(AsyncClient.stop_job)
    jobs = waiting(AsyncClient.jobs)
    job = waiting(AsyncClient.job)
    job_output = waiting(AsyncClient.job_output)
    verify_job = waiting(AsyncClient.verify_job)
    job_efficiency = waiting(AsyncClient.job_efficiency)
    job_training = waiting(AsyncClient.job_training)
    job_demand = waiting(AsyncClient.job_demand)

    plan = waiting(AsyncClient.plan)
    apply = waiting(AsyncClient.apply)
    apply_hash = waiting(AsyncClient.apply_hash)
    restore = waiting(AsyncClient.restore)
    history = waiting(AsyncClient.history)
    prepare = waiting(AsyncClient.prepare)
    switch = waiting(AsyncClient.switch)
    sets = waiting(AsyncClient.sets)
    release_set = waiting(AsyncClient.release_set)
    confirm = waiting(AsyncClient.confirm)
    roll_back = waiting(AsyncClient.roll_back)
    give_up = waiting(AsyncClient.give_up)
    reload = waiting(AsyncClient.reload)
    timeline = waiting(AsyncClient.timeline)

    start_run = waiting(AsyncClient.start_run)
    start_playbook = waiting(AsyncClient.start_playbook)
    runs = waiting(AsyncClient.runs)
    run = waiting(AsyncClient.run)
    run_state = waiting(AsyncClient.run_state)
    run_documents = waiting(AsyncClient.run_documents)
    timelines = waiting(AsyncClient.timelines)
    result = waiting(AsyncClient.result)
    queue = waiting(AsyncClient.queue)
    pause = waiting(AsyncClient.pause)
    resume = waiting(AsyncClient.resume)
    abort = waiting(AsyncClient.abort)

    leases = waiting(AsyncClient.leases)
    lease_requests = waiting(AsyncClient.lease_requests)
    take_lease = waiting(AsyncClient.take_lease)
    wait_lease = waiting(AsyncClient.wait_lease)
    beat_lease = waiting(AsyncClient.beat_lease)
    renew_lease = waiting(AsyncClient.renew_lease)
    release_lease = waiting(AsyncClient.release_lease)
    kick_lease = waiting(AsyncClient.kick_lease)
    grant_lease = waiting(AsyncClient.grant_lease)

    add_demand = waiting(AsyncClient.add_demand)
    demands = waiting(AsyncClient.demands)
    demand = waiting(AsyncClient.demand)
    remove_demand = waiting(AsyncClient.remove_demand)

    block = waiting(AsyncClient.block)
    unblock = waiting(AsyncClient.unblock)
    fault = waiting(AsyncClient.fault)

    @contextmanager
    def events(
        self, *, after: str | None = None, kinds: Iterable[str] = (), say: Callable[[str], None] | None = None
    ) -> Generator[Generator[Event]]:
        """Events from now on, or after an id; reconnects when the connection is lost.

        with client.events(kinds=["run."]) as events:
            for event in events: ...

        `say` gets a line when the daemon stops answering, and one when it answers again; it is called in the client's
        thread and must not call the client. Raises LinkError when the daemon does not come back.
        """
        with closing(self._loop.step(self._client.listen(after=after, kinds=kinds, say=say))) as found:
            yield found

    def run_program(self, host: str, *words: str, by: str | None = None) -> Generator[ProgramNews]:
        """Start a program on a host, see `AsyncClient.run_program`; close the generator to end it."""
        return self._loop.step(self._client.run_program(host, *words, by=by))

    def follow(self, run: str) -> Generator[RunStatus]:
        """The state of a run, now and at every change, until it has ended. Survives lost connections and restarts of
        the daemon.
        """
        return self._loop.step(self._client.follow(run))
