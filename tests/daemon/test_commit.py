"""The commit of a real checkout, of an installation, and of neither."""

import json
import subprocess
from pathlib import Path

import pytest

from hwd.daemon.commit import Commit, of_installation, of_tree


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("one\n")
    git(tree, "init", "-q")
    git(tree, "add", "file")
    git(tree, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "one")
    return tree


def git(tree: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_checkout_is_known_by_its_commit_and_by_whether_it_was_changed(checkout: Path) -> None:
    short = git(checkout, "rev-parse", "--short", "HEAD")
    assert of_tree(checkout) == Commit(id=short, why_not="")
    (checkout / "file").write_text("two\n")
    assert of_tree(checkout).id == f"{short}-dirty"


def test_a_tree_that_only_lies_in_a_checkout_is_not_taken_for_it(checkout: Path) -> None:
    inner = checkout / "site-packages"
    inner.mkdir()
    assert of_tree(inner).id is None
    assert "is no checkout of git" in of_tree(inner).why_not


def test_what_git_says_of_a_broken_checkout_is_told(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").write_text("nonsense\n")
    assert of_tree(checkout).id is None
    assert "git says: fatal" in str(of_tree(checkout))


def test_without_git_that_is_told(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "cannot ask git" in of_tree(checkout).why_not


def test_an_installation_from_a_commit_names_it() -> None:
    origin = {"url": "https://example.org/hwd.git", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}}
    assert of_installation(json.dumps(origin)) == Commit(id="0123abcd", why_not="")
    assert of_installation(json.dumps({"url": "file:///src", "dir_info": {"editable": True}})) is None
    assert of_installation(None) is None
