"""What became of the commands that nsqd answers only if they fail: FIN and REQ.

nsqd executes the commands of a connection in order and writes their answers in that order. An answer to a
later command therefore proves that the earlier ones were executed, except those that it refused before.
Heartbeats prove nothing: another thread of nsqd sends them. The later command is a *fence*: TOUCH with an
id that no message has, which nsqd refuses, and which changes nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from veristream.brokers.nsq.protocol import FENCE, Refusal
from veristream.recording.journal import Call, Journal

NO_EFFECT: Final = ("ID not in flight", "client does not own message")
"""Why nsqd refuses a FIN or REQ before it changed anything: the delivery timed out, or is another's."""

_FENCE_REFUSED: Final = f"TOUCH {FENCE.decode()} failed "
_CODES: Final = {"E_FIN_FAILED": "FIN", "E_REQ_FAILED": "REQ"}


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A command of which nobody knows yet whether nsqd executed it."""

    journal: Journal
    call: Call
    command: str
    id: bytes


class Settling:
    """The commands without an answer on one connection, in order, with the fences between them."""

    def __init__(self) -> None:
        self._waiting: deque[Pending | None] = deque()  # None is a fence
        self._unfenced: set[bytes] = set()

    @property
    def unfenced(self) -> int:
        """How many commands no fence follows."""
        return len(self._unfenced)

    @property
    def unsettled(self) -> int:
        """How many commands and fences wait for an answer."""
        return len(self._waiting)

    def is_unfenced(self, id_: bytes) -> bool:
        """Whether a command for this message waits before any fence: a refusal would not say which one."""
        return id_ in self._unfenced

    def add(self, pending: Pending) -> None:
        """Adds a command that is sent next."""
        self._waiting.append(pending)
        self._unfenced.add(pending.id)

    def fence(self) -> None:
        """Says that a fence is sent next."""
        self._waiting.append(None)
        self._unfenced.clear()

    def take(self, refusal: Refusal) -> bool:
        """Ends the calls that a refusal decides; says whether it belongs to any command that was added."""
        if refusal.code == "E_TOUCH_FAILED" and refusal.text.startswith(_FENCE_REFUSED):
            return self._pass_fence()
        return self._refuse(refusal)

    def abandon(self, error: str) -> None:
        """Ends all calls as indefinite: the connection was lost."""
        for each in self._waiting:
            if each is not None:
                each.journal.indefinite(each.call, error)
        self._waiting.clear()
        self._unfenced.clear()

    def _pass_fence(self) -> bool:
        if None not in self._waiting:
            return False
        while (each := self._waiting.popleft()) is not None:
            each.journal.ok(each.call)
        return True

    def _refuse(self, refusal: Refusal) -> bool:
        command, _, rest = refusal.text.partition(" ")
        id_, _, why = rest.partition(" failed ")
        if _CODES.get(refusal.code) != command:
            return False
        for each in self._waiting:
            if each is None:
                return False
            if (each.command, each.id) == (command, id_.encode()):
                error = f"{refusal.code} {why}"
                if why in NO_EFFECT:
                    each.journal.fail(each.call, error)
                else:  # for example REQ on a channel that is going: taken from flight, and not queued
                    each.journal.indefinite(each.call, error)
                self._waiting.remove(each)
                self._unfenced.discard(each.id)
                return True
        return False
