"""Ports on this machine where nobody listens."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from veristream.errors import EnvironmentFailure

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Where free ports are looked for: below those that systems give to outgoing connections."""


def draw_ports(count: int) -> list[int]:
    """Ports on loopback where nobody listens now, and which nobody draws for the next minute or so."""
    ports: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(PORTS, len(PORTS)):
            each = stack.enter_context(socket.socket())
            try:
                each.bind((HOST, port))
                _keep(each)
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise EnvironmentFailure(
        f"no {count} ports are free on {HOST}", "end what listens there, or choose them with --port"
    )


def _keep(bound: socket.socket) -> None:
    """Lets a connection end on a port, so that the system keeps it for a while.

    Whoever is given the port takes it as servers do, with SO_REUSEADDR; who draws does without, and does
    not get it.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.listen(1)
    with socket.create_connection(bound.getsockname()):
        bound.accept()[0].close()  # the side that closes first is the one that the system remembers
