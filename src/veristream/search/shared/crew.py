"""The driver's end of a shared exploration: workers that each own a part, led level by level.

To a search it looks like a local exploration. A state's index has the number of its part above 32 bits.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import numpy as np

from veristream.errors import EnvironmentFailure
from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError
from veristream.search.reach.expand import FAULT
from veristream.search.session import Hit
from veristream.search.shared import channel
from veristream.search.shared.channel import Message
from veristream.search.shared.checkpoint import Manifest, Saved, read_saved, write_manifest
from veristream.search.shared.contract import Value
from veristream.search.shared.worker import Meeting, Say
from veristream.verdict import Counts, Spread

INDEX_BITS = 32
STATES, TRANSITIONS, SENT, SEEN, BYTES = range(5)


class WorkerLostError(Exception):
    """A worker is gone in the middle of a run."""


@dataclass(slots=True)
class Crew:
    """The workers of one run, once all have come."""

    server: socket.socket
    secret: bytes
    part_count: int
    workers: dict[int, socket.socket] = field(default_factory=dict)

    @property
    def meeting(self) -> Meeting:
        """Where workers are to come."""
        host, port = self.server.getsockname()[:2]
        return Meeting(str(host), int(port), self.secret)

    def gather(
        self,
        seconds: float,
        hopeful: Callable[[], bool],
        folder: str,
        manifest: Manifest | None,
        handed: bool = False,
    ) -> None:
        """Waits for all workers, makes them known to each other and tells them where to begin.

        Raises TimeoutError after so many seconds, or once there is no hope that they come; WorkerLostError.
        """
        addresses: dict[int, tuple[str, int]] = {}
        deadline = time.monotonic() + seconds
        self.server.settimeout(0.5)
        while len(self.workers) < self.part_count:
            try:
                sock = channel.accept(self.server, self.secret)
            except TimeoutError:
                if time.monotonic() > deadline or not hopeful():
                    raise
                continue
            try:
                hello = channel.receive(sock)
            except OSError:
                continue  # it was lost; Spark sends another
            place = hello.json()
            self.workers[hello.number] = sock
            addresses[hello.number] = (place["host"], place["port"])
        saved = [None] * self.part_count if manifest is None else [asdict(one) for one in manifest.parts]
        ordered = [addresses[number] for number in range(self.part_count)]
        told = {"addresses": ordered, "folder": folder, "saved": saved, "handed": handed}
        self.tell_all(Say.PEERS, 0, told)

    def tell(self, part: int, kind: Say, number: int = 0, value: object = None) -> None:
        """Says something to one worker; raises WorkerLostError."""
        try:
            channel.send(self.workers[part], kind, number, value)
        except OSError as error:
            raise WorkerLostError(f"part {part}: {error}") from error

    def give(self, part: int, data: bytes) -> None:
        """Sends a message that is framed already; raises WorkerLostError."""
        try:
            self.workers[part].sendall(data)
        except OSError as error:
            raise WorkerLostError(f"part {part}: {error}") from error

    def tell_all(self, kind: Say, number: int = 0, value: object = None) -> None:
        """Says the same to all workers; raises WorkerLostError."""
        for part in range(self.part_count):
            self.tell(part, kind, number, value)

    def hear(self, part: int) -> Message:
        """The next message of a worker; raises WorkerLostError."""
        try:
            return channel.receive(self.workers[part])
        except OSError as error:
            raise WorkerLostError(f"part {part}: {error}") from error

    def hear_all(self) -> list[Message]:
        """The next message of each worker, by part; raises WorkerLostError."""
        return [self.hear(part) for part in range(self.part_count)]

    def close(self) -> None:
        """Lets the workers go."""
        for sock in self.workers.values():
            with suppress(OSError):
                channel.send(sock, Say.STOP)
            sock.close()
        self.workers.clear()
        self.server.close()


def open_crew(host: str, part_count: int) -> Crew:
    """A crew that nobody has come to yet."""
    return Crew(channel.listen(host), secrets.token_bytes(32), part_count)


@dataclass(slots=True)
class Checkpoints:
    """Where and how often an exploration is saved."""

    folder: str
    digest: str
    seconds: float
    last: float = field(default_factory=time.monotonic)

    def level_done(self, exploration: SharedExploration) -> None:
        """Saves the exploration if it is time to."""
        if time.monotonic() - self.last < self.seconds:
            return
        crew = exploration.crew
        crew.tell_all(Say.SAVE, exploration.depth, self.folder)
        told = crew.hear_all()
        exploration.require_room(told)
        parts = tuple(read_saved(message.json()) for message in told)
        write_manifest(self.folder, exploration.manifest(self.digest, parts))
        self.last = time.monotonic()


@dataclass(slots=True)
class SharedExploration:
    """An exploration that a crew shares; see `explore.Exploration` for what a search asks of it."""

    crew: Crew
    budget: int
    directions: tuple[int, ...] = ()  # of measures: 1 for the greatest, -1 for the least
    hits: list[Hit] = field(default_factory=list)
    complete: bool = False
    depth: int = 0
    frontier: int = 1
    numbers: list[list[int]] = field(default_factory=list)
    moved: list[tuple[int, int]] = field(default_factory=list)  # of each part: bytes sent, bytes on disk
    bests: list[list[list[int]]] = field(default_factory=list)
    unwatched: list[int] = field(default_factory=list)
    noted: dict[int, Hit] = field(default_factory=dict)  # by kind: what decided something
    checkpoints: Checkpoints | None = None

    def advance(self, quantum: int) -> None:
        """Explores one level, however large."""
        self.hits.clear()
        self.crew.tell_all(Say.GO, self.depth)
        told = self.crew.hear_all()
        self.require_room(told)
        values = [message.json() for message in told]
        self.numbers = [value["numbers"] for value in values]
        self.moved = [(value["sent_bytes"], value.get("spilled_bytes", 0)) for value in values]
        self.bests = [value["best"] for value in values]
        self.frontier = sum(value["size"] for value in values)
        for part, value in enumerate(values):
            for kind, source, other in value["hits"]:
                where = other if kind == FAULT else global_index(part, other)  # a fault tells its action
                self.hits.append(Hit(kind, global_index(part, source), where))
        self.complete = self.frontier == 0
        self.depth += not self.complete
        if self.checkpoints is not None and not self.complete and not self.hits:
            self.checkpoints.level_done(self)

    def manifest(self, digest: str, parts: tuple[Saved, ...]) -> Manifest:
        """What a checkpoint says beside what the parts save."""
        hits = tuple((hit.kind, hit.source, hit.other) for hit in self.noted.values())
        return Manifest(digest, self.depth, tuple(self.unwatched), hits, parts)

    def resume(self, manifest: Manifest) -> None:
        """Goes on from a checkpoint: what decided something is a hit again, for a search that begins."""
        self.depth = manifest.depth
        self.hits[:] = [Hit(*hit) for hit in manifest.hits]
        again = {hit.kind for hit in self.hits}
        for kind in manifest.unwatched:
            if kind not in again:
                self.unwatch(kind)

    def ask_all(self, question: Value) -> list[Value]:
        """The answer of each part, in order.

        Raises WorkerLostError, OutOfMemoryError and EnvironmentFailure.
        """
        self.crew.tell_all(Say.ASK, 0, question)
        told = self.crew.hear_all()
        self.require_room(told)
        return [message.json() for message in told]

    def require_room(self, told: list[Message]) -> None:
        """Raises OutOfMemoryError if a worker's memory, EnvironmentFailure if its disk is full."""
        failed = [message.json() for message in told if message.kind == Say.FAILED]
        full = next((one["disk"] for one in failed if one["disk"]), "")
        if full:
            counts = self.counts
            raise EnvironmentFailure(
                f"a worker's disk is full ({full}); explored so far: {counts.states:,} states,"
                f" {counts.transitions:,} transitions, {counts.depth:,} levels",
                "make room, or give --spill or --checkpoint a folder on a larger disk;"
                " --resume goes on from the last checkpoint",
            )
        if failed:
            raise OutOfMemoryError

    @property
    def spread(self) -> Spread | None:
        """How evenly the parts share the states, and what they move; None before the first level."""
        return spread_of_parts([one[STATES] for one in self.numbers], self.moved) if self.moved else None

    def _sum(self, which: int) -> int:
        return sum(one[which] for one in self.numbers)

    @property
    def state_count(self) -> int:
        """States found."""
        return self._sum(STATES) if self.numbers else 1

    @property
    def counts(self) -> Counts:
        """The depth is the number of the level being expanded; after the end, the greatest distance."""
        return Counts(self.state_count, self._sum(TRANSITIONS), self.depth, frontier=self.frontier)

    @property
    def seen(self) -> int:
        """The state propositions that held somewhere."""
        bits = 0
        for one in self.numbers:
            bits |= one[SEEN]
        return bits

    @property
    def byte_count(self) -> int:
        """Memory in use by all workers."""
        return self._sum(BYTES)

    def best(self, measure: int) -> tuple[int, int] | None:
        """The best value of a measure and the state that has it."""
        found = [
            (best[measure][0], global_index(part, best[measure][1]))
            for part, best in enumerate(self.bests)
            if best[measure][1] >= 0
        ]
        sign = self.directions[measure]
        return max(found, key=lambda one: one[0] * sign) if found else None

    def row(self, index: int) -> Row:
        """The row of a state."""
        return np.array(self._tell(index)["row"], np.uint64)

    def path(self, index: int) -> list[int]:
        """The states from the initial one to this one."""
        path = [index]
        while (parent := self._tell(path[-1])["parent"]) is not None:
            path.append(global_index(*parent))
        return path[::-1]

    def _tell(self, index: int) -> dict[str, list[int] | None]:
        part, place = split_index(index)
        self.crew.tell(part, Say.TELL, place)
        told: dict[str, list[int] | None] = self.crew.hear(part).json()
        return told

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind."""
        self.remember(kind)
        self.ask_all({"unwatch": kind})

    def remember(self, kind: int) -> None:
        """A kind of hit is not looked for any more; what there was of it goes into checkpoints."""
        self.unwatched.append(kind)
        for hit in self.hits:
            if hit.kind == kind:
                self.noted.setdefault(kind, hit)

    def count_orbits(self, orbit: int) -> int:
        """How many states those found stand for, by symmetry."""
        return sum(answer["orbits"] for answer in self.ask_all({"count": "orbits"}))

    def close(self) -> None:
        """Nothing to wait for: the workers stay to tell what they found."""


def spread_of_parts(states: Sequence[int], moved: Sequence[tuple[int, int]]) -> Spread:
    """How parts of so many states each share a search, with the bytes that each has sent and spilled."""
    skew = max(states) * len(states) / max(1, sum(states))
    return Spread(len(states), skew, sum(sent for sent, _ in moved), sum(disk for _, disk in moved))


def global_index(part: int, index: int) -> int:
    """The index of a part's state among all."""
    return (part << INDEX_BITS) | index


def split_index(index: int) -> tuple[int, int]:
    """The part of a state, and its index there."""
    return index >> INDEX_BITS, index & ((1 << INDEX_BITS) - 1)
