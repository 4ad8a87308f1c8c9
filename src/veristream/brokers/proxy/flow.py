"""One direction of a connection: takes apart what its source says, and hands on what may pass."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol, assert_never

from veristream.brokers.proxy.carrier import CARRIED, Carrier, make_carrier
from veristream.brokers.proxy.pieces import (
    LOOKED_AT,
    Change,
    Cut,
    Decide,
    Decision,
    Direction,
    Drop,
    Framing,
    Hold,
    NotSpoken,
    Pass,
    Piece,
    Request,
)

QUEUED: Final = 64
"""How many pieces wait at most behind one that waits; a sender that is faster has to wait, too."""
READ_FIRST: Final = 1 << 12
READ_MAX: Final = 1 << 16
"""How much is read at a time: little where a long message may begin, whose rest is carried instead."""
ROUNDS: Final = 8
"""How often a flow takes more before others have their turn."""
OUT_MAX: Final = 1 << 18
"""A source that is faster than its target waits when so many bytes have not been sent."""

Then = Callable[[], None] | None


class Surroundings(Protocol):
    """The connection of a flow, and what is wrong with its network."""

    is_torn: bool
    number: int

    @property
    def node(self) -> str: ...
    @property
    def delay_s(self) -> float: ...
    @property
    def drops(self) -> bool: ...
    @property
    def decide(self) -> Decide | None:
        """What decides about pieces; None if all may pass unseen."""
        ...

    def later(self, when_s: float, what: Callable[[], None]) -> None:
        """Calls something at a time."""
        ...

    def soon(self, what: Callable[[], None]) -> None:
        """Calls something in the thread of the proxies; any thread may ask for it."""
        ...

    def close(self) -> None:
        """Closes both sides."""
        ...

    def cut_behind(self, flow: Flow) -> None:
        """Closes both sides, but what the flow has sent arrives."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """A piece all of which has come, and when."""

    number: int
    data: bytes
    request: Request | None
    came_s: float


class Flow:
    """Bytes from a source to a target, both of which do not block."""

    def __init__(
        self,
        around: Surroundings,
        direction: Direction,
        framing: Framing,
        source: socket.socket,
        target: socket.socket,
    ) -> None:
        self.direction = direction
        self.source = source
        self.target = target
        self.is_finished = False
        self._around = around
        self._framing = framing
        self._arrived = bytearray()
        self._out = bytearray()
        self._body = 0  # bytes of a message under way that have not come
        self._carrier: Carrier | None = None
        self._number = 0
        self._decided: tuple[Decision, int, Request | None] | None = None  # about a piece not yet whole
        self._front: _Whole | None = None  # waits for a gate or a time
        self._waiting: deque[_Whole] = deque()
        self._has_ended = False
        self._is_deaf = False
        self._reading = READ_FIRST
        self._given = self._sent = 0
        self._thens: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def wants_more(self) -> bool:
        """Whether to go on reading."""
        if self._has_ended or self.is_finished:
            return False
        if self._front is not None:
            return len(self._waiting) < QUEUED
        return self._is_deaf or (not self._carried and len(self._out) < (1 if self._body else OUT_MAX))

    @property
    def has_more(self) -> bool:
        """Whether there is something to send."""
        return not self._is_deaf and bool(self._carried or self._out)

    @property
    def _carried(self) -> int:
        return self._carrier.held if self._carrier is not None else 0

    def read(self) -> None:
        """Takes what the source says."""
        if self._is_deaf:
            self._ignore()
            return
        try:
            for _ in range(ROUNDS):
                if not self._read_once():
                    break
        except BlockingIOError:
            pass
        except OSError:  # reset: the same as its end
            self._has_ended, self._body = True, 0
        self.advance()

    def advance(self) -> None:
        """Hands on all that may pass."""
        self._take_apart()
        if self._has_ended and self._front is None and not self._waiting:
            self._end()
        self._send()
        if self._has_ended and not self.is_finished and not self._has_rest():
            self._finish()

    def become_deaf(self) -> None:
        """Ignores from now on what the source says, and forgets what was not sent."""
        self._is_deaf = True
        self._out.clear()
        self._arrived.clear()
        self._waiting.clear()
        self._thens.clear()
        self._front, self._decided, self._body = None, None, 0
        self._free()

    def stop(self) -> None:
        """Forgets everything: the sockets are closed."""
        self.become_deaf()
        self._has_ended = self.is_finished = True

    def _free(self) -> None:
        if self._carrier is not None:
            self._carrier.close()
            self._carrier = None

    def _send(self) -> None:
        """Sends as much as the target takes."""
        try:
            while self._carrier is not None and self._carrier.held:
                self._sent += self._carrier.give(self.target)
            while self._out:
                more = socket.MSG_MORE if self._body and hasattr(socket, "MSG_MORE") else 0
                count = self.target.send(self._out, more)
                del self._out[:count]
                self._sent += count
        except BlockingIOError:
            pass
        except OSError:
            self._lose_target()
            return
        while self._thens and self._thens[0][0] <= self._sent:
            self._thens.popleft()[1]()

    def _read_once(self) -> bool:
        """Takes something; returns whether to try again at once."""
        if self._is_deaf or not self.wants_more:
            return False
        if self._body or (self._framing.is_raw and self._may_pass_unseen() and not self._arrived):
            return self._carry()
        data = self.source.recv(READ_MAX if self._framing.is_raw else self._reading)
        if not data:
            self._has_ended = True
            return False
        self._arrived += data
        is_full = len(data) == self._reading
        self._reading = min(READ_MAX, self._reading * 4) if is_full else READ_FIRST
        self._take_apart()
        return is_full or self._body > 0

    def _carry(self) -> bool:
        """Carries bytes of a message whose beginning has passed, or any bytes without a framing."""
        self._send()
        if self._out or self._carried or self._is_deaf:
            return False
        if self._carrier is None:
            self._carrier = make_carrier()
        count = self._carrier.take(self.source, self._body or CARRIED)
        if count == 0:
            self._has_ended, self._body = True, 0
            return False
        if self._body:
            self._body -= count
        else:
            self._given += count
            self._number += 1
        self._send()
        return True

    def _may_pass_unseen(self) -> bool:
        around = self._around
        return around.decide is None and not around.drops and not around.delay_s and self._front is None

    def _take_apart(self) -> None:
        while self._body == 0 and self._step():
            pass

    def _step(self) -> bool:
        """Does what can be done with the next piece; returns whether to try again."""
        if self._front is None and self._waiting:
            whole = self._waiting.popleft()
            self._act(whole, self._ask(whole.number, whole.data, whole.request, len(whole.data)))
            return True
        if self._decided is not None:
            decision, size, request = self._decided
            if len(self._arrived) < size:
                return False
            self._decided = None
            self._act(self._take(size, request), decision)
            return True
        try:
            size_or_none = self._framing.size(self.direction, self._arrived)
        except NotSpoken:
            self._arrived.clear()
            self._has_ended = True
            return False
        return size_or_none is not None and self._begin(size_or_none)

    def _begin(self, size: int) -> bool:
        """Does what can be done with a piece of which at least the head has come."""
        if self._front is not None:
            if len(self._arrived) < size or len(self._waiting) >= QUEUED:
                return False
            request = self._framing.request(self.direction, self._arrived)
            self._waiting.append(self._take(size, request))
            return True
        if self._may_pass_unseen():
            self._framing.request(self.direction, self._arrived)
            self._number += 1
            self._let_through(size, None)
            return True
        if len(self._arrived) < min(size, LOOKED_AT):
            return False
        request = self._framing.request(self.direction, self._arrived)
        head = bytes(memoryview(self._arrived)[: min(size, LOOKED_AT)])
        decision = self._ask(self._number, head, request, size)
        around = self._around
        match decision:
            case Pass(0.0, then) if not around.drops and not around.delay_s:
                self._number += 1
                self._let_through(size, then)
            case _:  # it is only acted on once all of it has come
                self._decided = decision, size, request
        return True

    def _ask(self, number: int, data: bytes, request: Request | None, size: int) -> Decision:
        around = self._around
        if around.decide is None:
            return Pass()
        return around.decide(Piece(around.node, around.number, self.direction, number, data, request, size))

    def _let_through(self, size: int, then: Then) -> None:
        """Hands on the next piece as it comes, whether all of it has come or not."""
        here = min(size, len(self._arrived))
        self._out += memoryview(self._arrived)[:here]
        del self._arrived[:here]
        self._body = size - here
        self._note(size, then)

    def _take(self, size: int, request: Request | None) -> _Whole:
        data = bytes(memoryview(self._arrived)[:size])
        del self._arrived[:size]
        self._number += 1
        return _Whole(self._number - 1, data, request, time.monotonic())

    def _act(self, piece: _Whole, decision: Decision) -> None:
        self._send()  # what is ahead has passed before
        match decision:
            case Cut(after, then):
                if not after:
                    self._around.close()
                    return
                self._hand_on(piece, then)
                self._thens.append((self._given, lambda: self._around.cut_behind(self)))
                self._arrived.clear()
                self._waiting.clear()
                self._has_ended = True
            case Drop():
                self._around.is_torn = True
            case Change(data):
                self._front = changed = replace(piece, data=data)
                self._go_on(changed, 0.0, None)
            case Hold(gate, then):
                self._front = piece
                if gate.arrive(lambda: self._around.soon(lambda: self._release(piece, then))):
                    self._go_on(piece, 0.0, then)
            case Pass(after_s, then):
                self._front = piece
                self._go_on(piece, after_s, then)
            case _:
                assert_never(decision)

    def _go_on(self, piece: _Whole, after_s: float, then: Then) -> None:
        """Takes up a piece that nobody holds: what is wrong with the network can still happen to it."""
        if self._front is not piece:
            return  # the connection was cut
        due_s = piece.came_s + self._around.delay_s + after_s
        if self._around.drops and self.direction == "to client":
            self._around.is_torn = True
            self._front = None
        elif due_s > time.monotonic():
            self._around.later(due_s, lambda: self._arrive(piece, then))
        else:
            self._front = None
            self._hand_on(piece, then)

    def _release(self, piece: _Whole, then: Then) -> None:
        self._go_on(piece, 0.0, then)
        self.advance()

    def _arrive(self, piece: _Whole, then: Then) -> None:
        if self._front is piece:
            self._front = None
            self._hand_on(piece, then)
            self.advance()

    def _hand_on(self, piece: _Whole, then: Then) -> None:
        self._out += piece.data
        self._note(len(piece.data), then)

    def _note(self, size: int, then: Then) -> None:
        self._given += size
        if then is not None:
            self._thens.append((self._given, then))

    def _end(self) -> None:
        """Deals with a message that is not whole when its source ends: it passes unless somebody steers."""
        if self._may_pass_unseen() and not self._is_deaf:
            self._out += self._arrived
            self._given += len(self._arrived)
        self._arrived.clear()
        self._decided = None

    def _has_rest(self) -> bool:
        return bool(self._carried or self._out or self._front or self._waiting or self._decided)

    def _finish(self) -> None:
        self.is_finished = True
        self._free()
        with suppress(OSError):  # it may have gone
            self.target.shutdown(socket.SHUT_WR)

    def _lose_target(self) -> None:
        """Tells the client that the broker has gone; what a client has said arrives though it has gone."""
        if self.direction == "to broker":
            self._around.close()
        else:
            self.become_deaf()

    def _ignore(self) -> None:
        try:
            while self.source.recv(READ_MAX):
                pass
        except BlockingIOError:
            return
        except OSError:
            pass
        self._has_ended = self.is_finished = True
