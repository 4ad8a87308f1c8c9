"""An eavesdropper between clients and a broker: it reads every byte, and changes none."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from veristream.brokers.proxy.pieces import PASS, Decision, Direction, Piece
from veristream.trials.intruders.attacks import Observation, Outcome


class Eavesdropper:
    """Keeps what passes a proxy; a decision about pieces, which lets all of them pass."""

    def __init__(self) -> None:
        self._heard: dict[tuple[int, Direction], bytearray] = defaultdict(bytearray)
        self._lock = threading.Lock()

    def __call__(self, piece: Piece) -> Decision:
        with self._lock:
            self._heard[piece.connection, piece.direction] += piece.data
        return PASS

    def take(self, secrets: Iterable[str]) -> Observation:
        """Returns which secrets it has read since the last time, and forgets what it has heard."""
        with self._lock:
            heard, self._heard = self._heard, defaultdict(bytearray)
        wanted = [each.encode() for each in secrets]
        read = sum(any(each in stream for stream in heard.values()) for each in wanted)
        size = sum(map(len, heard.values()))
        counts = {"payloads": len(wanted), "read": read, "bytes": size}
        words = f"{read} of {len(wanted)} payloads are readable in {size:,} bytes"
        return Observation(Outcome.SUCCEEDED if read else Outcome.PREVENTED, words, counts)
