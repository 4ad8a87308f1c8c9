"""Ports that are drawn before anybody listens there."""

from __future__ import annotations

import socket

import pytest

from veristream.errors import EnvironmentFailure
from veristream.kabis import ports
from veristream.kabis.ports import HOST, draw_ports


def test_what_was_drawn_is_not_drawn_again_and_a_server_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may draw between the first draw and the server that it was for."""
    (port,) = draw_ports(1)
    monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
    with pytest.raises(EnvironmentFailure, match="no 1 ports are free"):
        draw_ports(1)
    with socket.create_server((HOST, port)) as server:
        assert server.getsockname() == (HOST, port)
