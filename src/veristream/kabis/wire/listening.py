"""Accepts connections: never more than there are places, and again after the system refused one."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTED_AT_ONCE = 32
"""How many callers are accepted before the event loop turns to others."""
_GONE = frozenset({errno.ECONNABORTED, errno.EINTR, errno.EPROTO, errno.EPERM, errno.ENETDOWN})
"""What `accept` says of one caller who is not there any more."""
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0

Accept = Callable[[], asyncio.BaseProtocol]


class Listening:
    """A listening socket; `knock` says whether a caller from an address may come in."""

    def __init__(self, listener: socket.socket, knock: Callable[[str], bool], make: Accept) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._knock = knock
        self._make = make
        self._tasks: set[asyncio.Task[object]] = set()
        self._wait_s = FIRST_WAIT_S
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener, self._accept)

    @property
    def name(self) -> tuple[str, int]:
        """The host and the port."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                caller, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _GONE:
                    continue
                self._rest(error)
                return
            self._wait_s = FIRST_WAIT_S
            if not self._knock(str(address[0])):
                caller.close()
                continue
            self._let_in(caller)

    def _let_in(self, caller: socket.socket) -> None:
        caller.setblocking(False)
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task: asyncio.Task[object] = self._loop.create_task(self._connect(caller))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, caller: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, caller)
        except OSError as error:  # the caller is gone already
            _LOGGER.info("a caller did not come in: %s", error)
            caller.close()

    def _rest(self, error: OSError) -> None:
        """Accepts nobody for a while: the system has no file or memory for one more (EMFILE, ENOMEM)."""
        _LOGGER.warning("cannot accept connections, trying again in %.2f s: %s", self._wait_s, error)
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(self._wait_s, self._resume)
        self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)

    def _resume(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Stops listening."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for task in self._tasks:
            task.cancel()


async def listen(host: str, port: int) -> list[socket.socket]:
    """Returns sockets that listen at every address of a host. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
    except OSError:
        for each in listeners:
            each.close()
        raise
    return listeners
