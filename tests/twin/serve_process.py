"""A served rack in a process of its own.

python serve_process.py TESTBED RUN_DIR (kernel | process) (agents | alone)
"""

import sys
from pathlib import Path

from hwd.config.testbed.testbed import load_testbed
from hwd.daemon.process_main import log_to_stderr, run_until_stopped
from hwd.twin.serve import serve_rack
from hwd_drivers.core.errors import HwdError
from hwd_drivers.devices import registry


def main(testbed: str, run_dir: str, hosts: str, agents: str) -> int:
    log_to_stderr(verbose=False)
    loaded = load_testbed(testbed, {name: registry.find(name) for name in registry.names()}).require()
    try:
        run_until_stopped(
            serve_rack(loaded, run_dir=Path(run_dir), process_hosts=hosts == "process", with_agents=agents == "agents")
        )
    except HwdError as error:
        sys.stderr.write(f"{error.title}: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
