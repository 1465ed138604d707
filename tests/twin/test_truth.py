import json
from pathlib import Path

from hwd.model.nic_port import NicPortId
from hwd.twin.nic import What
from hwd.twin.truth import Truth, TruthFile


def truth(at_ns: int) -> Truth:
    return Truth(port=NicPortId.parse("h0.eth0"), what=What.CARRIER, up=True, before_ns=at_ns, after_ns=at_ns + 1)


def test_truths_are_lines_of_json(tmp_path: Path) -> None:
    with TruthFile(tmp_path / "truth.jsonl") as truths:
        truths(truth(5))
        (line,) = (tmp_path / "truth.jsonl").read_text().splitlines()
    assert json.loads(line) == {"port": "h0.eth0", "what": "carrier", "up": True, "before_ns": 5, "after_ns": 6}


def test_file_is_bounded_and_the_last_truths_are_kept(tmp_path: Path) -> None:
    limit = 1000
    with TruthFile(tmp_path / "truth.jsonl", limit_bytes=limit) as truths:
        for at_ns in range(200):
            truths(truth(at_ns))
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["truth.jsonl", "truth.jsonl.1"]
    assert all(path.stat().st_size <= limit + 100 for path in files)
    kept = [json.loads(line)["before_ns"] for path in reversed(files) for line in path.read_text().splitlines()]
    assert kept == list(range(kept[0], 200))
