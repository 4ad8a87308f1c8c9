"""Ports that are drawn before anybody listens there."""

from __future__ import annotations

import resource
import socket

import pytest

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire import ports
from veristream.kabis.wire.ports import HOST, PORTS, VARIABLE, draw_ports, find_range


def test_what_was_drawn_is_not_drawn_again_and_a_server_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may draw between the first draw and the server that it was for."""
    (port,) = draw_ports(1)
    monkeypatch.setenv(VARIABLE, f"{port}-{port}")
    with pytest.raises(EnvironmentFailure, match=f"no 1 ports are free on {HOST} from {port} to {port}"):
        draw_ports(1)
    with socket.create_server((HOST, port)) as server:
        assert server.getsockname() == (HOST, port)


def test_a_range_is_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = find_range()[:1000]
    monkeypatch.delenv(VARIABLE, raising=False)
    assert find_range() == PORTS
    monkeypatch.setenv(VARIABLE, f"{ours[0]}-{ours[-1]}")
    assert find_range() == ours
    assert set(draw_ports(20)) < set(ours)


def test_a_range_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ports were tried in vain, none of the files that a process may have is used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(ports, "_keep", refuse)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with pytest.raises(EnvironmentFailure, match="no 1 ports are free"):
            draw_ports(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def refuse(_: socket.socket) -> None:
    raise PermissionError("not for you")


@pytest.mark.parametrize("given", ["", "21000", "21999-21000", "0-5", "60000-65536", "a-b", "1-2-3"])
def test_a_range_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(ModelError, match=f"^{VARIABLE} is {given!r}$") as caught:
        draw_ports(1)
    assert caught.value.hint == "give the first and the last port: 20000-20999"
