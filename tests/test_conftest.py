"""The leak checks see what they are there for, and nothing else."""

from pathlib import Path
from textwrap import dedent

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

LEAKS = {
    "thread": """
        def test_leak():
            KEPT.append(threading.Event())
            threading.Thread(target=KEPT[-1].wait, name="left", daemon=True).start()
        """,
    "open socket": """
        def test_leak():
            KEPT.append(socket.socket())
        """,
    "dropped socket": """
        def test_leak():
            socket.socket()
        """,
    "transport": """
        async def test_leak():
            server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
            KEPT.append(server)
        """,
    "task": """
        async def test_leak():
            KEPT.append(asyncio.create_task(asyncio.sleep(3600)))
        """,
    "error of a task": """
        async def fail():
            raise ValueError("nobody asked")

        async def test_leak():
            task = asyncio.create_task(fail())
            await asyncio.wait([task])
        """,
    "value of a fixture": """
        @pytest.fixture
        def value():
            return Ring()

        def test_leak(value):
            pass

        def test_that_is_blamed():
            pass
        """,
    "value of a wider fixture": """
        @pytest.fixture(scope="class")
        def value():
            return Ring()

        class TestLeak:
            def test_that_is_not_the_last(self, value):
                pass

            def test_that_is_the_last(self, value):
                pass

        def test_that_is_blamed():
            pass
        """,
    "warning": """
        def test_leak():
            warnings.warn("old", DeprecationWarning)
        """,
}

HEAD = """
import asyncio, pytest, socket, threading, warnings
from hypothesis import given, strategies

KEPT = []

class Ring:
    "Only the collection finds that nobody needs it any more, and that its file is open."
    def __init__(self):
        self.itself = self
        self.file = open(__file__)
"""

CLEAN = """
        @pytest.fixture
        async def server():
            task = asyncio.create_task(asyncio.sleep(3600))
            async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
                yield server
            task.cancel()
            await asyncio.wait([task])

        async def test_that_uses_a_server(server):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

        async def test_that_uses_the_executor_of_its_loop():
            await asyncio.get_running_loop().run_in_executor(None, int)

        def test_that_runs_a_loop_of_its_own():
            asyncio.run(asyncio.sleep(0))

        @given(strategies.integers())
        async def test_that_is_drawn(number):
            await asyncio.sleep(0)

        def test_without_a_loop():
            thread = threading.Thread(target=int)
            thread.start()
        """


def test_each_leak_fails_its_test_and_clean_tests_pass(pytester: pytest.Pytester) -> None:
    suites = {f"test_{name.replace(' ', '_')}": HEAD + dedent(source) for name, source in LEAKS.items()}
    tests = pytester.mkdir("tests")
    for name in ("conftest.py", "virtual_time.py"):
        (tests / name).write_text(CONFTEST.with_name(name).read_text())
    for name, text in {**suites, "test_clean": HEAD + dedent(CLEAN)}.items():
        (tests / f"{name}.py").write_text(text)
    project = CONFTEST.parent.with_name("pyproject.toml")
    result = pytester.runpytest_subprocess("-c", project, "--rootdir", pytester.path, tests)
    bad = {
        line.split("::")[0].split()[1]
        for line in result.outlines
        if line.startswith(("FAILED tests/test_", "ERROR tests/test_"))
    }
    assert bad == {f"tests/{suite}.py" for suite in suites}
