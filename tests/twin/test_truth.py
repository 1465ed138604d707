import json
import resource
import shutil
import signal
from pathlib import Path

from hwd.model.nic_port import NicPortId
from hwd.twin.nic import What
from hwd.twin.truth import Truth, TruthFile


def truth(at_ns: int) -> Truth:
    return Truth(port=NicPortId.parse("h0.eth0"), what=What.CARRIER, up=True, before_ns=at_ns, after_ns=at_ns + 1)


def test_truths_go_on_whole_after_a_disk_was_full(tmp_path: Path) -> None:
    """The limit of this process on the size of files stands for the disk."""
    path = tmp_path / "truth.jsonl"
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with TruthFile(path) as truths:
            resource.setrlimit(resource.RLIMIT_FSIZE, (150, limits[1]))
            for at_ns in range(4):
                truths(truth(at_ns))
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            truths(truth(9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    lines = path.read_text().splitlines()
    assert json.loads(lines[0])["before_ns"] == 0
    assert json.loads(lines[-1])["before_ns"] == 9


def test_truths_are_bounded_lines_of_json_whose_last_are_kept_and_a_removed_file_begins_anew(tmp_path: Path) -> None:
    limit = 1000
    with TruthFile(tmp_path / "truth.jsonl", limit_bytes=limit) as truths:
        for at_ns in range(200):
            truths(truth(at_ns))
    (*_, line) = (tmp_path / "truth.jsonl").read_text().splitlines()
    assert json.loads(line) == {"port": "h0.eth0", "what": "carrier", "up": True, "before_ns": 199, "after_ns": 200}
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["truth.jsonl", "truth.jsonl.1"]
    assert all(path.stat().st_size <= limit + 100 for path in files)
    kept = [json.loads(line)["before_ns"] for path in reversed(files) for line in path.read_text().splitlines()]
    assert kept == list(range(kept[0], 200))
    path = tmp_path / "run" / "truth.jsonl"
    path.parent.mkdir()
    with TruthFile(path, limit_bytes=100) as truths:
        truths(truth(1))
        shutil.rmtree(path.parent)
        for at_ns in range(5):  # over the limit: the file that is to be renamed is gone, and so is its folder
            truths(truth(at_ns))
        assert truths.restore()
        truths(truth(7))
        assert not truths.restore()
    assert [json.loads(line)["before_ns"] for line in path.read_text().splitlines()] == [7]
