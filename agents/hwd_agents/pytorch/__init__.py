"""The backend `hwd` of torch.distributed: `init_process_group("hwd")` in the ranks of a job, with the model as it is.

What is sent is sent by gloo, and by NCCL between GPUs. Each operation is announced to the control plane of the job
before, and has completed when the plane is told of its end. PyTorch finds it by the entry point `torch.backends`.
"""

from dataclasses import dataclass
from typing import Final

BACKEND: Final = "hwd"


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """The options of one process group: `new_group(ranks, pg_options=GroupOptions(group="tp0"))`.

    `group`: the group of the job that it is, where several have the same ranks. `over`: `electrical` for one that sends
    over packet switches and announces nothing.
    """

    group: str | None = None
    over: str = "optical"

    def __post_init__(self) -> None:
        if self.over not in ("optical", "electrical"):
            raise ValueError(f"over: {self.over!r}: it is optical or electrical")


def register() -> None:
    """Called by `import torch`, so it imports nothing else."""
    import torch.distributed

    if torch.distributed.is_available():
        torch.distributed.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu", "cuda"])


def _create(group: object, options: object) -> object:
    from hwd_agents.pytorch.process_group import create

    return create(group, options)
