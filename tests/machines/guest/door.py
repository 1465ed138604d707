"""The door into a machine: runs commands for the tests that started it, a connection each.

The request is a line of JSON, `{"command": [...], "stdin_bytes": N, "within_s": S}`, and N bytes. The answer is a line
of JSON, `{"status": S, "out_bytes": N, "err_bytes": M}`, and the N + M bytes.
A command whose client hangs up is killed with all that it started. Process 1 of a bare machine reaps what others leave.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import IO

PORT = 7


def main() -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", PORT))
    listener.listen(64)
    with open("/proc/uptime") as uptime:
        sys.stdout.write(f"hwd: the door is open, {uptime.read().split()[0]} s after the start of the kernel\n")
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def serve(connection: socket.socket) -> None:
    with connection, connection.makefile("rwb") as wire:
        line = wire.readline()
        if not line:
            return
        asked = json.loads(line)
        given = wire.read(asked["stdin_bytes"])
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    asked["command"], stdin=stdin, stdout=out, stderr=err, start_new_session=True, close_fds=True
                )
            except OSError as error:
                err.write(f"{asked['command'][0]}: {error.strerror}\n".encode())
                status = 127
            else:
                status = wait(process, connection)
            said = [read(out), read(err)]
        head = {"status": status, "out_bytes": len(said[0]), "err_bytes": len(said[1])}
        wire.write(json.dumps(head).encode() + b"\n" + said[0] + said[1])


def wait(process: "subprocess.Popen[bytes]", connection: socket.socket) -> int:
    """Its exit status, negative for a signal. Killed where the client hangs up first."""
    ended = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([ended, connection.fileno()], [], [])
        if ended not in ready:
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
    finally:
        os.close(ended)


def read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


if __name__ == "__main__":
    main()
