"""Free ports on this machine."""

from __future__ import annotations

import os
import random
import re
import socket
from contextlib import ExitStack

from veristream.errors import EnvironmentFailure, ModelError

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""The default range: below the ports that systems use for outgoing connections."""
CONNECT_S = 1.0
VARIABLE = "VERISTREAM_PORTS"
"""The environment variable that sets another range, such as 20000-20999."""


def find_range() -> range:
    """Returns the range to search. Raises ModelError if the variable does not contain a range."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return PORTS
    bounds = re.fullmatch(r"(\d{1,5})-(\d{1,5})", given)
    if bounds is None or not 0 < int(bounds[1]) <= int(bounds[2]) < 1 << 16:
        raise ModelError(f"{VARIABLE} is {given!r}", hint="give the first and the last port: 20000-20999")
    return range(int(bounds[1]), int(bounds[2]) + 1)


def draw_ports(count: int) -> list[int]:
    """Returns free ports on loopback that no other caller gets for the next minute or so."""
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
    """Closes a connection on a port, so that the system reserves it for a while.

    A server binds the port with SO_REUSEADDR, which still works. `draw_ports` binds without it, and skips
    the port.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.listen()
    with socket.create_connection(bound.getsockname(), CONNECT_S):
        bound.accept()[0].close()  # the system reserves the port of the side that closes first
