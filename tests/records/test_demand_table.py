"""Stored demands in the records: their matrices, the bounds of their number and size, and a file of before."""

import struct
from collections.abc import Sequence

import pytest

from hwd.model.demand import DemandKey, NewDemand
from hwd.records import Records, demand_table
from hwd_drivers.core.errors import ConfigError, RefusedError, UnknownError

from .conftest import Restart


def demand(name: str = "moe", *, amount: float = 5.0, layers: Sequence[int] = (0, 1)) -> NewDemand:
    matrix = struct.pack("<4d", 0.0, amount, 7.0, 0.0)
    return NewDemand(
        name=name,
        by="ada",
        added_wall_ns=10,
        hosts=("h0", "h1"),
        experts=16,
        matrices={(layer, 1): matrix for layer in layers},
        total_bytes=len(layers) * (amount + 7.0),
    )


async def names(records: Records) -> list[str]:
    return [one.name for one in await records.demands.all()]


async def test_demand_outlives_the_daemon(restart: Restart) -> None:
    first = await restart()
    added = await first.demands.add(demand())
    second = await restart()
    assert await second.demands.all() == (added,)
    assert (added.layers, added.microbatches, added.matrices, added.stored_bytes) == ([0, 1], [1], 2, 64)
    assert str(added) == "demand moe of ada: 2 matrices of 2 x 2 hosts of 16 experts, 24 bytes"
    found = await second.demands.matrix(DemandKey(name="moe", layer=1, microbatch=1))
    assert (found.hosts, found.bytes, found.total_bytes) == (["h0", "h1"], [[0.0, 5.0], [7.0, 0.0]], 12.0)
    assert found.between == {("h0", "h1"): 12.0}


async def test_name_that_is_taken_is_refused_and_replaced_where_that_is_asked_for(memory: Records) -> None:
    await memory.demands.add(demand(layers=(0, 1, 2)))
    with pytest.raises(RefusedError, match=r"demand moe: there is one of that name\. .* --replace"):
        await memory.demands.add(demand(amount=6.0))
    key = DemandKey(name="moe", layer=0, microbatch=1)
    assert (await memory.demands.matrix(key)).bytes[0][1] == 5.0
    await memory.demands.add(demand(amount=6.0, layers=[0]), replace=True)
    assert (await memory.demands.matrix(key)).bytes[0][1] == 6.0
    with pytest.raises(UnknownError, match="layer 2, micro-batch 1: not stored; it has layers 0 and micro-batches 1"):
        await memory.demands.matrix(DemandKey(name="moe", layer=2, microbatch=1))


async def test_what_is_removed_is_not_there_any_more(memory: Records) -> None:
    added = await memory.demands.add(demand())
    await memory.demands.add(demand("other"))
    assert await memory.demands.remove("moe") == added
    for call in (memory.demands.remove("moe"), memory.demands.matrix(DemandKey(name="moe"))):
        with pytest.raises(UnknownError, match=r"demand 'moe': not stored\. `hwd demand list` says which are"):
            await call
    assert await names(memory) == ["other"]
    assert (await memory.demands.matrix(DemandKey(name="other", microbatch=1))).name == "other"


async def test_layers_that_are_there_are_named_where_one_is_not(memory: Records) -> None:
    await memory.demands.add(demand(layers=[0, 2, 5]))
    with pytest.raises(UnknownError, match="it has layers 0, 2, 5 and micro-batches 1"):
        await memory.demands.matrix(DemandKey(name="moe", layer=1, microbatch=1))
    await memory.demands.add(demand(layers=[3, 4, 5]), replace=True)
    with pytest.raises(UnknownError, match="it has layers 3 to 5 and"):
        await memory.demands.matrix(DemandKey(name="moe", layer=1, microbatch=1))
    with pytest.raises(ConfigError, match="layer 1024, micro-batch 0: layers and micro-batches are numbered from 0"):
        DemandKey(name="moe", layer=1024)


async def test_number_and_size_of_all_are_bounded(memory: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_table, "DEMANDS_MAX", 3)
    monkeypatch.setattr(demand_table, "ALL_BYTES_MAX", 200)
    for name in ("a", "b"):
        await memory.demands.add(demand(name))
    with pytest.raises(RefusedError, match=r"demand c: 2 others have 0\.0 MB, .*`hwd demand remove` makes room"):
        await memory.demands.add(demand("c", layers=(0, 1, 2)))
    await memory.demands.add(demand("c"))
    with pytest.raises(RefusedError, match="3 others"):
        await memory.demands.add(demand("d", layers=()))
    await memory.demands.add(demand("c", amount=1.0), replace=True)
    await memory.demands.remove("a")
    await memory.demands.add(demand("d"))
    assert await names(memory) == ["b", "c", "d"]
