"""Stands for a process of tests that is a fork of another: `python forked_tester.py FOLDER ... -c CODE`.

Hands its descriptors over, and ends when the fork has. Becomes `python -c CODE` itself when nobody forks.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    folder, code = sys.argv[1], sys.argv[-1]
    lives, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(f"{folder}/testers") as file:  # noqa: PTH123 - pathlib takes longer to import than all of this
        arguments = json.load(file)
    request = {"kind": "testers", "read_at_import": [], "arguments": arguments, "code": code}
    request["cwd"] = os.getcwd()  # noqa: PTH109
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        asked.connect(f"{folder}/warm")
        socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
    except OSError:
        pass
    theirs.close()
    if not lives.recv(1):
        os.execv(sys.executable, [sys.executable, "-u", "-c", code])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fork has heard it, too
    lives.recv(1)


if __name__ == "__main__":
    main()
