"""Train a small model on drawn data: alone, with DistributedDataParallel, or with fully_shard.

    python train.py --parallel none
    hwd job run train -- --parallel ddp

The batches are the same whatever the number of ranks: each rank takes its part of every batch. So is the result, but
for the order in which floating-point numbers are added.
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

FEATURES = 64
BATCH = 32


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 4 * FEATURES), torch.nn.ReLU(), torch.nn.Linear(4 * FEATURES, 1)
    )


def train(model, steps, rank, ranks):
    """The loss of the whole batch of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(2)
    for _ in range(steps):
        inputs = torch.randn(BATCH, FEATURES, generator=draws)
        wanted = inputs.sum(dim=1, keepdim=True).tanh()
        part = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
        loss = torch.nn.functional.mse_loss(model(inputs[part]), wanted[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / ranks
        if ranks > 1:
            dist.all_reduce(mean)
        yield mean.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallel", choices=["none", "ddp", "fsdp"], default="ddp")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    model, rank, ranks = make_model(), 0, 1
    if options.parallel != "none":
        dist.init_process_group("hwd")
        rank, ranks = dist.get_rank(), dist.get_world_size()
    if options.parallel == "ddp":
        model = DistributedDataParallel(model)
    elif options.parallel == "fsdp":
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=mesh)
    for step, loss in enumerate(train(model, options.steps, rank, ranks)):
        print(f"step {step}: loss {loss:.9f}", flush=True)
    if options.parallel != "none":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
