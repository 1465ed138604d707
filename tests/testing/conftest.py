"""Sessions of pytest inside pytest, against the rack of the session around them."""

from collections.abc import Callable

import numpy as np
import pytest

from hwd.client.find import Whereabouts
from hwd.testing.running_lab import RunningLab

Session = Callable[..., pytest.RunResult]
LOADED_ONCE = (np,)
"""What a session inside loads, goes with it; this cannot be loaded a second time in a process."""
INI = """\
[pytest]
asyncio_default_fixture_loop_scope = function
asyncio_mode = auto
"""


@pytest.fixture
def session(pytester: pytest.Pytester, hwd_running: RunningLab, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Runs a file of tests in this process. The rack around it is its glass, so that nothing has to be started; its
    token is named, as of a daemon elsewhere.
    """
    pytester.makeini(INI)
    daemon = Whereabouts.find(environment=hwd_running.environment, testbed=hwd_running.name)
    url = daemon.url
    monkeypatch.setenv("HWD_TOKEN", str(daemon.token))

    def run(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_inner=text)
        return pytester.runpytest_inprocess("--hwd-lab", url, *arguments)

    return run
