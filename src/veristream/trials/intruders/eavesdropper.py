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
        self._heard: dict[tuple[int, Direction], list[bytes]] = defaultdict(list)
        self._lock = threading.Lock()

    def __call__(self, piece: Piece) -> Decision:
        with self._lock:
            self._heard[piece.connection, piece.direction].append(piece.data)
        return PASS

    def session(self) -> list[bytes]:
        """Returns what a client has sent on the connection on which most was sent, piece by piece."""
        with self._lock:
            sent = [list(each) for (_, to), each in self._heard.items() if to == "to broker"]
        return max(sent, key=lambda pieces: sum(map(len, pieces)), default=[])

    def take(self, secrets: Iterable[str]) -> Observation:
        """Returns which secrets it has read since the last time, and forgets what it has heard."""
        with self._lock:
            streams = [b"".join(each) for each in self._heard.values()]
            self._heard.clear()
        wanted = [each.encode() for each in secrets]
        read = sum(any(each in stream for stream in streams) for each in wanted)
        size = sum(map(len, streams))
        counts = {"payloads": len(wanted), "read": read, "bytes": size}
        words = f"{read} of {len(wanted)} payloads are readable in {size:,} bytes"
        return Observation(Outcome.SUCCEEDED if read else Outcome.PREVENTED, words, counts)
