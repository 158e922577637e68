"""Stands in for the interpreter of pytest-xdist's workers: tests/forked/__main__.py forks them.

`python worker.py SOCKET ...` hands over its environment and its standard streams, and ends when
the worker does.
"""

import os
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        environment = b"\0".join(name + b"=" + value for name, value in os.environb.items())
        socket.send_fds(connection, [environment], [0, 1, 2])
        connection.recv(1)  # the worker holds the other end until it exits
