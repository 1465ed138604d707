"""The process group of the backend: what torch.distributed calls, announced to the job and sent by gloo or NCCL.

It is a Python subclass of torch.distributed.ProcessGroup, which DistributedDataParallel and fully_shard call like any
other one. gloo connects all ranks of a group when it is made, over the first NIC port of each: that is announced as a
barrier.
"""

import atexit
import functools
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from hwd_agents.pytorch import BACKEND, GroupOptions
from hwd_agents.pytorch.group_choice import GroupChoice
from hwd_agents.pytorch.worker import SubmittedOperation, Worker
from hwd_agents.shim import Rank
from hwd_agents.wire import OperationKind
from hwd_drivers.core.errors import ConfigError, RefusedError

INTERFACE_VARIABLE: Final = "GLOO_SOCKET_IFNAME"
"""By which gloo is told where to listen (PyTorch documentation, torch.distributed, Common environment variables)."""
ASKS_S: Final = 60.0
"""For one operation, where the daemon does not say what it may ask for."""


@functools.cache
def _joined() -> tuple[Rank, Worker]:
    """This process as a rank of its job, once: its operations are counted from there on."""
    rank = Rank.from_environment()
    worker = Worker(rank)
    atexit.register(worker.close)
    return rank, worker


def create(group: Any, options: Any) -> "JobGroup":
    """Called by torch.distributed for each group of this process, in all its ranks. Raises ConfigError where the job
    has no such rank or group, and what gloo raises where its ranks cannot be connected.
    """
    if options is not None and not isinstance(options, GroupOptions):
        raise ConfigError(f"pg_options of backend {BACKEND}: {options!r} is no hwd_agents.pytorch.GroupOptions")
    rank, worker = _joined()
    ranks = tuple(group.global_ranks_in_group) or tuple(range(group.group_size))
    if ranks[group.group_rank] != rank.number or max(ranks) >= len(rank.places):
        raise ConfigError(
            f"rank {rank.number} of {len(rank.places)} of job {rank.job} calls itself rank {ranks[group.group_rank]} "
            f"of {max(ranks) + 1}: leave RANK and WORLD_SIZE as they were when it was started"
        )
    found = JobGroup(group, rank, worker, ranks, options or GroupOptions())
    found.connect()
    return found


class JobWork(dist.Work):
    """One operation that was called: it is over when it has completed in its group, not when the call returned."""

    def __init__(self, worker: Worker, result: list[torch.Tensor]) -> None:
        super().__init__()
        self._worker = worker
        self._result = result
        self._future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        self.submitted: SubmittedOperation

    def tell(self, error: BaseException | None) -> None:
        if error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Raises what failed; RuntimeError after the timeout."""
        seconds = timeout.total_seconds() if timeout else None
        if not self._worker.wait(self.submitted, seconds):
            raise RuntimeError(f"{self.submitted}: is not over after {seconds:g} s")
        if self.submitted.error is not None:
            raise self.submitted.error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        self._worker.begin(self.submitted)
        return self.submitted.is_over

    def is_success(self) -> bool:
        return self.submitted.is_over and self.submitted.error is None

    def exception(self) -> BaseException | None:
        return self.submitted.error

    def result(self) -> list[torch.Tensor]:
        return self._result

    def get_future(self) -> "torch.futures.Future[list[torch.Tensor]]":
        self._worker.begin(self.submitted)
        return self._future


class JobGroup(dist.ProcessGroup):
    """A process group of a job; `ranks`: of the job, in the order of the group."""

    def __init__(self, group: Any, rank: Rank, worker: Worker, ranks: tuple[int, ...], options: GroupOptions) -> None:
        super().__init__(group.group_rank, group.group_size)
        self._group = group
        self._rank = rank
        self._worker = worker
        self._ranks = ranks
        self._gloo: Any = None
        self._nccl: Any = None
        self._choice = GroupChoice(
            ranks, options, job=rank.job, number=rank.number, places=rank.places, groups=rank.groups
        )

    @property
    def group_name(self) -> str:
        """The name of the group as torch.distributed has registered it."""
        return str(self._group.group_id)

    def connect(self) -> None:
        """Connect all ranks of the group, by gloo."""
        if not self._choice.has_way:
            return  # it may never send: torch.distributed makes a group of all ranks whether it is used or not
        work = JobWork(self._worker, [])
        self._submit(work, OperationKind.BARRIER, self._connect, 0, group=self._choice.any_name)
        work.wait()

    def _connect(self) -> None:
        before = os.environ.get(INTERFACE_VARIABLE)
        os.environ[INTERFACE_VARIABLE] = self._choice.port
        try:
            self._gloo = dist.ProcessGroupGloo(
                self._group.store, self._group.group_rank, self._group.group_size, timeout=self._group.timeout
            )
        finally:
            if before is None:
                del os.environ[INTERFACE_VARIABLE]
            else:
                os.environ[INTERFACE_VARIABLE] = before

    # --- what torch.distributed calls, in its words

    def getBackendName(self) -> str:  # noqa: N802 - its name there
        return BACKEND

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> JobWork:
        opts = opts or dist.AllreduceOptions()
        return self._go(OperationKind.ALL_REDUCE, tensors, tensors, lambda to: [to.allreduce(tensors, opts)], opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> JobWork:
        opts = opts or dist.AllreduceCoalescedOptions()
        return self._go(
            OperationKind.ALL_REDUCE, tensors, tensors, lambda to: [to.allreduce_coalesced(tensors, opts)], opts
        )

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> JobWork:
        return self._go(OperationKind.BROADCAST, tensors, tensors, lambda to: [to.broadcast(tensors, opts)])

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> JobWork:
        return self._go(OperationKind.REDUCE, tensors, tensors, lambda to: [to.reduce(tensors, opts)], opts)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> JobWork:
        opts, parts = opts or dist.AllgatherOptions(), _flat(outputs)
        return self._go(OperationKind.ALL_GATHER, parts, parts, lambda to: [to.allgather(outputs, inputs, opts)])

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> JobWork:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> JobWork:
        opts = opts or dist.AllgatherOptions()
        both = [(self._parts(output, input), input) for output, input in zip(outputs, inputs, strict=True)]
        return self._go(
            OperationKind.ALL_GATHER,
            outputs,
            outputs,
            lambda to: [to.allgather([parts], [input], opts) for parts, input in both],
        )

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> JobWork:
        opts, parts = opts or dist.ReduceScatterOptions(), _flat(inputs)
        return self._go(
            OperationKind.REDUCE_SCATTER, parts, outputs, lambda to: [to.reduce_scatter(outputs, inputs, opts)], opts
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> JobWork:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> JobWork:
        opts = opts or dist.ReduceScatterOptions()
        both = [(output, self._parts(input, output)) for output, input in zip(outputs, inputs, strict=True)]
        return self._go(
            OperationKind.REDUCE_SCATTER,
            inputs,
            outputs,
            lambda to: [to.reduce_scatter([output], [parts], opts) for output, parts in both],
            opts,
        )

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> JobWork:
        opts = opts or dist.AllToAllOptions()
        return self._go(OperationKind.ALL_TO_ALL, inputs, outputs, lambda to: [to.alltoall(outputs, inputs, opts)])

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any = None,
    ) -> JobWork:
        opts = opts or dist.AllToAllOptions()
        return self._go(
            OperationKind.ALL_TO_ALL,
            [input],
            [output],
            lambda to: [to.alltoall_base(output, input, output_sizes, input_sizes, opts)],
        )

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> JobWork:
        size = self.size() * _size(inputs)
        return self._go(
            OperationKind.GATHER, inputs, _flat(outputs), lambda to: [to.gather(outputs, inputs, opts)], size_bytes=size
        )

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> JobWork:
        size = self.size() * _size(outputs)
        return self._go(
            OperationKind.SCATTER, outputs, outputs, lambda to: [to.scatter(outputs, inputs, opts)], size_bytes=size
        )

    def barrier(self, opts: Any = None) -> JobWork:
        opts = opts or dist.BarrierOptions()
        work = JobWork(self._worker, [])
        device = torch.device("cuda" if self._nccl is not None else "cpu")
        self._submit(work, OperationKind.BARRIER, self._sending([], device, lambda to: [to.barrier(opts)]), 0)
        return work

    def send(self, tensors: list[torch.Tensor], to_rank: int, tag: int) -> JobWork:
        peer = self._ranks[to_rank]
        return self._go(OperationKind.SEND, tensors, tensors, lambda to: [to.send(tensors, to_rank, tag)], peer=peer)

    def recv(self, tensors: list[torch.Tensor], from_rank: int, tag: int) -> JobWork:
        peer = self._ranks[from_rank]
        return self._go(
            OperationKind.RECEIVE, tensors, tensors, lambda to: [to.recv(tensors, from_rank, tag)], peer=peer
        )

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> JobWork:
        raise RefusedError("a receive from any rank cannot be announced: name the rank that sends (src=...)")

    def shutdown(self) -> None:
        self._worker.drain()

    # --- inside

    def _parts(self, whole: torch.Tensor, part: torch.Tensor) -> list[torch.Tensor]:
        """The parts of each rank, as views: the backends have public names for lists of tensors alone."""
        return list(whole.view(self.size(), *part.shape).unbind(0))

    def _go(
        self,
        kind: OperationKind,
        tensors: Sequence[torch.Tensor],
        result: Sequence[torch.Tensor],
        start: Callable[[Any], list[Any]],
        reduces: Any = None,
        *,
        size_bytes: int | None = None,
        peer: int | None = None,
    ) -> JobWork:
        """`tensors`: those of the whole operation. `reduces`: its options, where they name a ReduceOp."""
        device = tensors[0].device
        averaged: Sequence[torch.Tensor] = ()
        if device.type == "cpu" and reduces is not None and reduces.reduceOp == ReduceOp.AVG:
            reduces.reduceOp = ReduceOp.SUM  # gloo has no AVG
            averaged = result
        work = JobWork(self._worker, [*result])
        size = _size(tensors) if size_bytes is None else size_bytes
        self._submit(work, kind, self._sending(averaged, device, start), size, peer=peer)
        return work

    def _sending(
        self, averaged: Sequence[torch.Tensor], device: torch.device, start: Callable[[Any], list[Any]]
    ) -> Callable[[], None]:
        """What sends, and returns when that has completed."""
        if device.type == "cuda":
            return self._sending_from_gpu(device, start)
        if device.type != "cpu":
            raise RefusedError(f"backend {BACKEND}: sends from the memory of CPUs and of CUDA devices, not of {device}")

        def send() -> None:
            for one in start(self._gloo):
                one.wait()
            for one in averaged:
                one.div_(self.size(), rounding_mode=None if one.is_floating_point() or one.is_complex() else "trunc")

        return send

    def _sending_from_gpu(self, device: torch.device, start: Callable[[Any], list[Any]]) -> Callable[[], None]:
        called = torch.cuda.current_stream(device).record_event()

        def send() -> None:
            with torch.cuda.device(device):
                if self._nccl is None:
                    self._nccl = dist.ProcessGroupNCCL(
                        self._group.store, self._group.group_rank, self._group.group_size
                    )
                stream = torch.cuda.current_stream()
                stream.wait_event(called)
                for one in start(self._nccl):
                    one.wait()
                stream.synchronize()

        return send

    def _submit(
        self,
        work: JobWork,
        kind: OperationKind,
        send: Callable[[], None],
        size_bytes: int,
        *,
        group: str | None = None,
        peer: int | None = None,
    ) -> None:
        work.submitted = SubmittedOperation(
            group=self._choice.name(self.group_name, str(self.group_desc)) if group is None else group,
            kind=kind,
            size_bytes=size_bytes,
            within_s=min(self._group.timeout.total_seconds(), self._rank.longest_s or ASKS_S),
            send=send,
            on_done=work.tell,
            peer=peer,
            port=self._choice.port,
        )
        self._worker.submit(work.submitted)


def _flat(tensors: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return [one for several in tensors for one in several]


def _size(tensors: Sequence[torch.Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)
