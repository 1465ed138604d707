"""Train a small transformer with mixture-of-experts layers: experts are spread over all ranks, tokens go to them.

    hwd job run moe -- --layers 2 --steps 3
    hwd job run moe -- --layers 2 --steps 3 --plain

Each layer makes two all-to-alls forward, tokens to their experts and back, and two backward, their gradients. Each is
asked for with what this rank has for each other one, and sent by mFabric's routing over the light that it was let go
over. With `--plain` gloo sends them over packet switches. The losses are the same, bit by bit.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

from hwd_agents.mfabric import Circuit, all_reduce_steps, all_to_all_moves, routing_table
from hwd_agents.shim import Rank
from hwd_drivers.core.clock import SystemClock

VOCABULARY = 64
WIDTH = 64
SEQUENCE = 32
WITHIN_S = 30


def now_s():
    return SystemClock().monotonic_ns() / 1e9


class Ways:
    """How ranks get something to each other. `rank`: of the job; `without`: the circuits of the
    routing table to do without, by number."""

    def __init__(self, rank, *, plain, without, eps_ports):
        self.number, self.ranks = rank.number, len(rank.places)
        self._rank, self._plain, self._without = rank, plain, without
        self._exchange = rank.exchange(eps_ports=eps_ports)
        self._links, self._table = None, None
        self.iteration, self.sent_s, self.waited_s = 0, 0.0, 0.0
        os.environ["GLOO_SOCKET_IFNAME"] = next(iter(rank.places[rank.number].electrical))
        dist.init_process_group("gloo")

    def close(self):
        dist.barrier()
        self._exchange.close()
        dist.destroy_process_group()

    def counts(self, own):
        """What each rank has for each, of what this one has for each."""
        every = [torch.empty_like(own) for _ in range(self.ranks)]
        dist.all_gather(every, own)
        return torch.stack(every)

    def all_to_all(self, rows, counts, layer):
        """`rows`: of this rank, for rank 0 first. `counts`: rows by sender and receiver. Returns those for this one."""
        began_s = now_s()
        sizes, expected = counts[self.number].tolist(), counts[:, self.number].tolist()
        if self._plain:
            came = rows.new_empty(sum(expected), *rows.shape[1:])
            dist.all_to_all_single(came, rows.contiguous(), expected, sizes)
        else:
            came = self._over_light(rows.contiguous(), counts, sizes, expected, layer)
        self.sent_s += now_s() - began_s
        return came

    def _over_light(self, rows, counts, sizes, expected, layer):
        element_bytes = rows[:1].numel() * rows.element_size() or rows.shape[1] * rows.element_size()
        whole, at, sent = memoryview(rows.numpy()).cast("B") if rows.numel() else memoryview(b""), 0, {}
        for other, size in enumerate(sizes):
            sent[other] = whole[at : at + size * element_bytes]
            at += size * element_bytes
        elements = {(one, other): n for one, row in enumerate(counts.tolist()) for other, n in enumerate(row)}
        parts = [size * element_bytes for size in sizes]
        asked_s = now_s()
        place = {"iteration": self.iteration, "layer": layer}
        with self._rank.operation("world", "all-to-all", parts=parts, within_s=WITHIN_S, **place):
            self.waited_s += now_s() - asked_s
            moves = all_to_all_moves(self._routed(), elements)
            came = self._exchange.all_to_all(moves, sent, element_bytes=element_bytes, within_s=WITHIN_S)
        data = b"".join(came.get(other, b"") for other in range(self.ranks))
        assert len(data) == sum(expected) * element_bytes
        found = torch.frombuffer(bytearray(data), dtype=rows.dtype) if data else rows.new_empty(0)
        return found.view(-1, *rows.shape[1:])

    def _routed(self):
        if self._rank.links != self._links:
            self._links = self._rank.links
            self._table = routing_table(self._exchange.servers, self._exchange.circuits(self._links))
            lit = [row for row in self._table.rows if isinstance(row.over, Circuit)]
            for number in self._without:
                if number < len(lit):
                    self._table = self._table.without(lit[number])
        return self._table

    def all_reduce(self, vector):
        """The sum of all, in place: within hosts to their gateways, in rings over packet switches, and back."""
        steps = all_reduce_steps(self._exchange.servers, len(vector))

        def add(into, came):
            torch.frombuffer(into, dtype=vector.dtype).add_(torch.frombuffer(bytearray(came), dtype=vector.dtype))

        view = memoryview(vector.numpy()).cast("B")
        self._exchange.all_reduce(steps, view, element_bytes=vector.element_size(), add=add, within_s=WITHIN_S)


class AllToAll(torch.autograd.Function):
    """Rows to other ranks; backward their gradients come back the same way."""

    @staticmethod
    def forward(context, rows, counts, ways, layer):
        context.counts, context.ways, context.layer = counts, ways, layer
        return ways.all_to_all(rows.detach(), counts, layer)

    @staticmethod
    def backward(context, gradient):
        back = context.ways.all_to_all(gradient, context.counts.T.contiguous(), context.layer)
        return back, None, None, None


class Experts(nn.Module):
    """A layer of experts, `each` of them at each rank. A token goes to the one that its gate likes best."""

    def __init__(self, ways, each, layer):
        super().__init__()
        self._ways, self._each, self._layer, seed = ways, each, layer, 10 + layer
        torch.manual_seed(seed)
        self.gate = nn.Linear(WIDTH, each * ways.ranks, bias=False)
        nn.init.normal_(self.gate.weight, std=0.5)
        own = []
        for number in range(ways.number * each, (ways.number + 1) * each):
            torch.manual_seed(1000 * seed + number)
            own.append(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)))
        self.own = nn.ModuleList(own)

    def forward(self, tokens):
        likes = self.gate(tokens).softmax(dim=-1)
        most, expert = likes.max(dim=-1)
        order = expert.argsort(stable=True)
        by_expert = self._ways.counts(torch.bincount(expert, minlength=self._each * self._ways.ranks))
        by_rank = by_expert.view(self._ways.ranks, self._ways.ranks, self._each)
        counts = by_rank.sum(dim=2)
        came = AllToAll.apply(tokens[order], counts, self._ways, self._layer)
        mine = by_rank[:, self._ways.number]  # by sender and expert
        of = torch.arange(self._each).repeat(self._ways.ranks).repeat_interleave(mine.flatten())
        done = torch.zeros_like(came)
        for number, expert_ in enumerate(self.own):
            done = done.index_put((torch.where(of == number)[0],), expert_(came[of == number]))
        back = AllToAll.apply(done, counts.T.contiguous(), self._ways, self._layer)
        found = torch.zeros_like(tokens).index_put((order,), back)
        return tokens + most.unsqueeze(-1) * found


class Model(nn.Module):
    def __init__(self, ways, layers, each):
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.attention = nn.ModuleList(nn.MultiheadAttention(WIDTH, 4, batch_first=True) for _ in range(layers))
        self.out = nn.Linear(WIDTH, VOCABULARY)
        self.experts = nn.ModuleList(Experts(ways, each, layer) for layer in range(layers))

    def forward(self, text):
        x = self.words(text)
        for attention, experts in zip(self.attention, self.experts, strict=True):
            x = x + attention(x, x, x, need_weights=False)[0]
            x = experts(x.reshape(-1, WIDTH)).view_as(x)
        return self.out(x)

    def shared(self):
        """The parameters that all ranks have alike; those of experts are at one rank."""
        return [value for name, value in self.named_parameters() if ".own." not in name]


def train(ways, options):
    model = Model(ways, options.layers, options.experts)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = torch.Generator().manual_seed(100 + ways.number)
    for step in range(options.steps):
        began_s, ways.iteration, ways.sent_s, ways.waited_s = now_s(), step, 0.0, 0.0
        optimizer.zero_grad()
        total = torch.zeros(1)
        for _ in range(options.micro_batches):
            text = torch.randint(VOCABULARY, (options.batch, SEQUENCE + 1), generator=draws).cumsum(1) % VOCABULARY
            loss = nn.functional.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
            loss.backward()
            total += loss.detach()
        vector = torch.cat([value.grad.flatten() for value in model.shared()] + [total])
        ways.all_reduce(vector)
        vector /= ways.ranks * options.micro_batches
        at = 0
        for value in model.shared():
            value.grad.copy_(vector[at : at + value.numel()].view_as(value))
            at += value.numel()
        for name, value in model.named_parameters():
            if ".own." in name and value.grad is not None:
                value.grad /= ways.ranks * options.micro_batches
        optimizer.step()
        print(f"step {step}: loss {vector[-1].item().hex()}", flush=True)
        seconds = now_s() - began_s
        words = f"all-to-alls {ways.sent_s:.4f} s, of that waited {ways.waited_s:.4f} s"
        print(f"iteration {step}: {seconds:.4f} s, {words}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=1, help="of each layer, at each rank")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="sequences of a micro-batch, at each rank")
    parser.add_argument("--plain", action="store_true", help="all-to-alls by gloo, over packet switches")
    parser.add_argument("--without-row", type=int, action="append", default=[], help="a circuit of the routing table")
    parser.add_argument("--eps-ports", type=int, help="NIC ports of a host on packet switches to use; all by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with Rank.from_environment() as rank:
        ways = Ways(rank, plain=options.plain, without=options.without_row, eps_ports=options.eps_ports)
        train(ways, options)
        ways.close()


if __name__ == "__main__":
    main()
