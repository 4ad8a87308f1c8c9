"""Ports on this machine where nobody listens."""

from __future__ import annotations

import os
import random
import re
import socket
from contextlib import ExitStack

from veristream.errors import EnvironmentFailure, ModelError

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Where free ports are looked for: below those that systems give to outgoing connections."""
CONNECT_S = 1.0
VARIABLE = "VERISTREAM_PORTS"
"""What names another range, such as 20000-20999."""


def find_range() -> range:
    """Where free ports are looked for here; raises ModelError if the range that is named is none."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return PORTS
    bounds = re.fullmatch(r"(\d{1,5})-(\d{1,5})", given)
    if bounds is None or not 0 < int(bounds[1]) <= int(bounds[2]) < 1 << 16:
        raise ModelError(f"{VARIABLE} is {given!r}", hint="give the first and the last port: 20000-20999")
    return range(int(bounds[1]), int(bounds[2]) + 1)


def draw_ports(count: int) -> list[int]:
    """Ports on loopback where nobody listens now, and which nobody draws for the next minute or so."""
    ports: list[int] = []
    among = find_range()
    with ExitStack() as stack:
        for port in random.sample(among, len(among)):
            each = stack.enter_context(socket.socket())
            try:
                each.bind((HOST, port))
                _keep(each)
            except OSError:
                each.close()
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise EnvironmentFailure(
        f"no {count} ports are free on {HOST} from {among[0]} to {among[-1]}",
        f"end what listens there, choose them with --port, or name another range in {VARIABLE}",
    )


def _keep(bound: socket.socket) -> None:
    """Lets a connection end on a port, so that the system keeps it for a while.

    Whoever is given the port takes it as servers do, with SO_REUSEADDR; who draws does without, and does
    not get it.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.listen()
    with socket.create_connection(bound.getsockname(), CONNECT_S):
        bound.accept()[0].close()  # the side that closes first is the one that the system remembers
