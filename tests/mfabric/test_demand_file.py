"""Files of demand: CSV and NPZ become matrices of hosts, or are refused with the place; what servers send by it."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from hwd.mfabric import demand_csv, demand_npz
from hwd.mfabric.demand import Fold, folded, server_demand
from hwd.mfabric.demand_file import DemandTerms, FileDemand, read_demand
from hwd.model.demand import AMOUNT_MAX, CSV_BYTES_MAX, EXPERTS_MAX, MATRICES_MAX, UNPACKED_BYTES_MAX
from hwd_drivers.core.errors import ConfigError

from ..answers import check_answers, check_golden

KNOWN = tuple(f"h{number}" for number in range(8))
THREE = DemandTerms(hosts=("h0", "h1", "h2"))
AMOUNTS = st.floats(0, AMOUNT_MAX, allow_subnormal=False)


DTYPES: st.SearchStrategy[np.dtype[Any]] = st.sampled_from([np.dtype(kind) for kind in ("u1", "<i8", "<f2", ">f4")])


def read(data: bytes | str, *hosts: str, experts_per_gpu: int | None = None, gpus: int | None = None) -> FileDemand:
    terms = DemandTerms(hosts=hosts, experts_per_gpu=experts_per_gpu, gpus_per_server=gpus)
    return read_demand(data.encode() if isinstance(data, str) else data, terms, known=KNOWN)


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def square(size: int) -> st.SearchStrategy[Any]:
    return arrays_of.arrays(np.float64, (size, size), elements=AMOUNTS)


def without_own(matrix: Any) -> list[list[float]]:
    copy = np.array(matrix, dtype=float)
    np.fill_diagonal(copy, 0)
    return copy.tolist()  # type: ignore[no-any-return]


def test_table_has_a_row_for_each_sender_and_what_stays_in_a_host_is_left_out() -> None:
    found = read("h0,h2,h1\n9,1,2\n3,9,4\r\n\n5.5,6e3,9\n")
    assert (found.hosts, found.experts, [*found.matrices]) == (("h0", "h2", "h1"), None, [(0, 0)])
    assert found.matrices[0, 0].tolist() == [[0, 1, 2], [3, 0, 4], [5.5, 6000, 0]]


@pytest.mark.parametrize("corner", ["", "from", "From "])
def test_rows_that_begin_with_their_sender_come_in_any_order(corner: str) -> None:
    found = read(f"\ufeff{corner},h0,h1\nh1,7,0\n h0 ,0,5\n")
    assert found.matrices[0, 0].tolist() == [[0, 5], [7, 0]]


def test_list_has_a_row_for_each_pair_and_the_others_are_nothing() -> None:
    found = read("layer,microbatch,from,to,bytes\n3,1,h1,h0,8\n3,1,h0,h2,2\n0,0,h2,h1,1\n")
    assert found.hosts == ("h1", "h0", "h2")
    assert {key: one.tolist() for key, one in found.matrices.items()} == {
        (3, 1): [[0, 8, 0], [0, 0, 2], [0, 0, 0]],
        (0, 0): [[0, 0, 0], [0, 0, 0], [1, 0, 0]],
    }
    assert [*read("bytes,to,from\n4,h1,h0\n").matrices] == [(0, 0)], "layer and micro-batch 0"


def test_named_hosts_give_the_order_and_hosts_of_the_file_stay_who_they_are() -> None:
    assert read("h1,h0\n0,5\n7,0\n", "h0", "h1", "h2").matrices[0, 0].tolist() == [[0, 7, 0], [5, 0, 0], [0, 0, 0]]


def test_names_that_are_no_hosts_are_the_named_hosts_in_order() -> None:
    found = read("gpu-a,gpu-b\n0,5\n7,0\n", "h4", "h2")
    assert (found.hosts, found.matrices[0, 0].tolist()) == (("h4", "h2"), [[0, 5], [7, 0]])
    assert read("1,0\n0,5\n7,0\n", "h4", "h2").matrices[0, 0].tolist() == [[0, 7], [5, 0]], "numbers are numbers"


def test_experts_become_the_named_hosts() -> None:
    sent = np.arange(64.0).reshape(8, 8)
    of_gates = server_demand(sent, experts_per_gpu=2, gpus_per_server=2)
    header = ",".join(f"e{number}" for number in range(8))
    table = "\n".join([header, *(",".join(map(str, row)) for row in sent)])
    pairs = "from,to,bytes\n" + "".join(f"{i},{j},{sent[i, j]}\n" for i in range(8) for j in range(8) if sent[i, j])
    for data in (table, pairs, npz(layer0=sent), npz(demand=sent[np.newaxis, np.newaxis])):
        found = read(data, "h3", "h1", experts_per_gpu=2, gpus=2)
        assert (found.hosts, found.experts) == (("h3", "h1"), 8)
        assert found.matrices[0, 0].tolist() == of_gates.tolist()


@given(st.data(), st.integers(2, 5), st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.none()))
def test_what_is_written_is_read(data: st.DataObject, size: int, keys: dict[tuple[int, int], None]) -> None:
    matrices = {key: data.draw(square(size)) for key in keys}
    assume(matrices)
    wanted = {key: without_own(one) for key, one in matrices.items()}
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **{f"layer{a}_microbatch{b}" if b else f"layer{a}": one for (a, b), one in matrices.items()})
        found = read(file.getvalue(), *KNOWN[:size])
        assert {key: one.tolist() for key, one in found.matrices.items()} == wanted
    lines = [
        f"{layer},{microbatch},{KNOWN[i]},{KNOWN[j]},{one[i, j]!r}"
        for (layer, microbatch), one in matrices.items()
        for i in range(size)
        for j in range(size)
    ]
    text = "\n".join(["layer,microbatch,from,to,bytes", *lines]).replace("np.float64(", "").replace(")", "")
    assert {key: one.tolist() for key, one in read(text).matrices.items()} == wanted


@given(arrays_of.arrays(DTYPES, (2, 2), elements=st.just(3)))
def test_numbers_of_every_width_and_order_are_read(array: Any) -> None:
    assert read(npz(layer0=array), "h0", "h1").matrices[0, 0].tolist() == [[0, 3], [3, 0]]
    assert read(npz(layer0=np.asfortranarray(array)), "h0", "h1").matrices[0, 0].tolist() == [[0, 3], [3, 0]]


def refused(data: bytes | str, *hosts: str, **more: int) -> str:
    with pytest.raises(ConfigError) as raised:
        read(data, *hosts, **more)
    return str(raised.value)


def test_csv_that_is_wrong_is_refused_with_its_place() -> None:
    check_answers(
        Path(__file__).with_name("csv_refusals.txt"), {"CSV": lambda text: refused(f"{text}\n" if text else "")}
    )
    assert "field larger than field limit" in refused("h0,h1\n0,{}\n".format("1" * 200_000))
    assert "the header has 4097 names" in refused(",".join(f"x{number}" for number in range(EXPERTS_MAX + 1)))
    for encoding in ("utf-16", "utf-32"):
        assert "is no UTF-8; save the file as UTF-8" in refused("h0,h1\n0,1\n1,0\n".encode(encoding))
    assert "byte 3 is no UTF-8" in refused(b"h0,\xfc\n")
    lines = ["layer,from,to,bytes", *(f"{layer},{name},0,1" for layer in range(20) for name in range(1000))]
    assert "20 matrices of 1000 x 1000: more than the 16777216 numbers of one file" in refused(
        "\n".join(lines), "h0", "h1", experts_per_gpu=1, gpus=500
    ), "before there is room for them"
    with pytest.raises(ConfigError, match="over the 8388608 of a CSV file; send NPZ"):
        demand_csv.read_csv(b" " * (CSV_BYTES_MAX + 1))


EYE = np.eye(2)
NPZ_REFUSALS = Path(__file__).with_name("npz_refusals.txt")


def wrong_npz() -> Iterator[dict[str, Any]]:
    for amounts in ([[0, -1], [0, 0]], [[0, 1e19], [0, 0]], np.zeros((2, 3)), np.zeros((3, 3))):
        yield {"layer0": amounts}
    yield {"layer3_microbatch1": [[0, 0], [np.nan, 0]]}
    yield {"demand": np.full((2, 3, 2, 2), np.inf)}
    for name, other in (("layer1", np.eye(3)), ("layer0_microbatch0", EYE), ("demand", EYE)):
        yield {"layer0": EYE, name: other}
    yield {}
    for shape in ((2, 2), (0, 1, 2, 2), (2000, 1, 2, 2), (100, 100, 1, 1)):
        yield {"demand": np.zeros(shape)}
    for name in ("layer1024", "layer01", "arr_0"):
        yield {name: EYE}
    for kind in (complex, bool, str):
        yield {"layer0": EYE.astype(kind)}
    yield {"layer0": np.array([[{}]], dtype=object)}
    yield {f"layer{a}_microbatch{b}": 0 for a in range(65) for b in range(64)}


def test_npz_that_is_wrong_is_refused_with_its_place() -> None:
    check_golden(NPZ_REFUSALS, "".join(f"{refused(npz(**arrays), 'h0', 'h1')}\n" for arrays in wrong_npz()))
    assert "floats of at most 64 bits" in refused(npz(layer0=np.longdouble(EYE)), "h0", "h1")


def test_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4200
    assert size * size * 8 > UNPACKED_BYTES_MAX
    data = npz(layer0=np.zeros((size, size)))
    assert len(data) < 1 << 20

    def unpack(*_: object) -> None:
        raise AssertionError("unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "open", unpack)
    with pytest.raises(ConfigError, match=r"unpacks to \d+ bytes, over the \d+ of one demand"):
        read(data, "h0", "h1")


def test_bomb_that_lies_about_its_size_ends_at_the_size_that_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    true = npz(layer0=np.zeros((1000, 1000)))
    data = bytearray(true)
    at = data.index(demand_npz.ENTRY)
    data[at + 24 : at + 28] = struct.pack("<I", 200)
    asked: list[int] = []
    decompressobj = zlib.decompressobj

    class Watched:
        def __init__(self, wbits: int) -> None:
            self._real = decompressobj(wbits)

        def decompress(self, data: bytes, most: int = 0) -> bytes:
            asked.append(most)
            return self._real.decompress(data, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(zlib, "decompressobj", Watched)
    with pytest.raises(ConfigError, match=r"NPZ: cannot be read: .*; is the file whole"):
        read(bytes(data), "h0", "h1")
    assert asked
    assert max(asked) <= 4096, "the least that zipfile unpacks at once"


def test_directory_of_more_entries_than_a_demand_has_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(ConfigError, match=f"over the {MATRICES_MAX} arrays"):
        read(b"PK\x03\x04" + demand_npz.ENTRY * (MATRICES_MAX + 2), "h0", "h1")


def npz_with(header: bytes) -> bytes:
    """One array of 32 bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("layer0.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(32))
    return file.getvalue()


def test_header_that_says_more_than_there_is_makes_no_room_for_it() -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000), }".ljust(117) + b"\n"
    assert "layer0: has 32 bytes, and its header says" in refused(npz_with(header), "h0", "h1")


def test_npz_that_is_cut_is_refused() -> None:
    data = npz(layer0=np.arange(4).reshape(2, 2))
    for end in range(len(data)):
        refused(data[:end], "h0", "h1")


def test_terms_that_contradict_each_other_are_refused() -> None:
    one: dict[str, Any] = {"hosts": ("h0",)}
    experts = [{"experts_per_gpu": each, "gpus_per_server": gpus} for each, gpus in ((0, 1), (10**9, 10**9), (1, 1))]
    told = []
    halves = [{"experts_per_gpu": 1}, {"gpus_per_server": 1}]
    for terms in ({"hosts": ("h0", "h0")}, *(one | more for more in (*halves, *experts[:2])), experts[2]):
        with pytest.raises(ConfigError) as raised:
            DemandTerms(**terms)
        told.append(f"{terms}: {raised.value}\n")
    check_golden(Path(__file__).with_name("terms_refusals.txt"), "".join(told))


def test_file_that_does_not_fit_what_is_said_of_it_is_refused() -> None:
    told = [f"NPZ for {hosts}: {refused(npz(layer0=EYE), *hosts)}\n" for hosts in ((), ("h0", "h9"), ("h0",))]
    told.append(refused("a,b\n0,1\n1,0\n", "h0", "h1", experts_per_gpu=1, gpus=2) + "\n")
    pairs = [f"from,to,bytes\n{pair},1\n" for pair in ("a,b", "0,3", "0,01")]
    tables = [f"{header}\n0,1\n1,0\n" for header in ("a,b", "h4,h0", "h0,x")]
    for text in (*tables, *pairs, "1,2,3\n0,0,0\n0,0,0\n0,0,0\n"):
        told.append(f"{text!r} for {THREE.hosts}: {refused(text, *THREE.hosts)}\n")
    check_golden(Path(__file__).with_name("file_refusals.txt"), "".join(told))


WHOLE = npz(layer0=EYE, layer1_microbatch2=EYE)
TEXTS = st.text(st.sampled_from("h01,\n\"'\0 e.-;"), max_size=60).map(str.encode)
PIECES = st.sampled_from(
    [b"", b"h0,h1\n", b"from,to,bytes\n", b"layer,microbatch,from,to,bytes\n", b"PK\x03\x04", WHOLE]
)


def read_or_bad(data: bytes, *hosts: str, **more: int) -> None:
    try:
        read(data, *hosts, **more)
    except ConfigError:
        pass


@given(PIECES, st.binary(max_size=200) | TEXTS)
@example(b"PK\x05\x06", bytes(18))
def test_any_bytes_are_read_or_are_bad_input(before: bytes, data: bytes) -> None:
    read_or_bad(before + data)
    read_or_bad(before + data, *THREE.hosts)
    read_or_bad(before + data, "h0", "h1", experts_per_gpu=1, gpus=1)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_npz_with_wrong_bytes_is_read_or_is_bad_input(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for at, byte in changes:
        data[at] = byte
    read_or_bad(bytes(data), "h0", "h1")


@given(st.text(st.sampled_from("{}()[]'\",: descrfotanpu<>|8=01TrueFalse\n"), max_size=80) | st.text(max_size=80))
@example("(" * 3000)
@example("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -2), }")
@example("{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 2L), }")
@example("{'descr': [('a', '<f8')], 'fortran_order': 0, 'shape': (2, 2), }")
@example("{'descr': '<f8', 'fortran_order': False, 'shape': (True, True), }")
def test_any_header_of_an_array_is_read_or_is_bad_input(header: str) -> None:
    read_or_bad(npz_with(header.encode("latin-1", "replace") + b"\n"), "h0", "h1")


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_servers_send_what_their_experts_do(experts: int, gpus: int, servers: int, random: Random) -> None:
    count = experts * gpus * servers
    sent = np.array([[random.randint(0, 9) for _ in range(count)] for _ in range(count)], dtype=float)
    found = server_demand(sent, experts_per_gpu=experts, gpus_per_server=gpus)
    of = [expert // experts // gpus for expert in range(count)]
    for one in range(servers):
        for other in range(servers):
            parts = (sent[a, b] for a in range(count) for b in range(count) if (of[a], of[b]) == (one, other))
            assert found[one, other] == (sum(parts) if one != other else 0)


def test_both_directions_become_one_number() -> None:
    between = np.array([[0.0, 1, 2], [3, 0, 4], [7, 5, 0]])
    assert folded(between).tolist() == [[0, 4, 9], [0, 0, 9], [0, 0, 0]]
    assert folded(between, Fold.MAX).tolist() == [[0, 3, 7], [0, 0, 5], [0, 0, 0]]
    assert folded(between, "sum").tolist() == folded(between).tolist()  # type: ignore[arg-type]
