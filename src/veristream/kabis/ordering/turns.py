"""A queue in which sources take turns, and the authors that each source names take turns within it."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Bound:
    """How much may wait: items, and their bytes together."""

    count: int
    size_bytes: int


@dataclass(slots=True)
class _Queue(Generic[Item]):
    items: deque[tuple[Item, int]] = field(default_factory=deque)
    size_bytes: int = 0


@dataclass(slots=True)
class _Source(Generic[Item]):
    queues: OrderedDict[str, _Queue[Item]] = field(default_factory=OrderedDict)
    count: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Turns(Generic[Item]):
    """Work by source and author, bounded for each source and for each author within a source.

    A source is authenticated, an author is only what the source says. So who floods delays only itself, and
    a source that passes a flood on still passes on the rest.
    """

    source_max: Bound
    author_max: Bound
    _sources: OrderedDict[str, _Source[Item]] = field(default_factory=OrderedDict)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def put(self, source: str, author: str, item: Item, size_bytes: int) -> bool:
        """Queues an item of a size; returns False if its source or author has too much."""
        known = self._sources.get(source) or _Source()
        queue = known.queues.get(author) or _Queue()
        if known.count >= self.source_max.count or len(queue.items) >= self.author_max.count:
            return False
        source_bytes, author_bytes = known.size_bytes + size_bytes, queue.size_bytes + size_bytes
        if source_bytes > self.source_max.size_bytes or author_bytes > self.author_max.size_bytes:
            return False
        queue.items.append((item, size_bytes))
        queue.size_bytes, known.size_bytes = author_bytes, source_bytes
        known.queues[author] = queue
        known.count += 1
        self._sources[source] = known
        self._count += 1
        return True

    def take(self) -> Item:
        """Removes and returns the item whose turn it is; raises KeyError if there is none."""
        name, source = self._sources.popitem(last=False)
        author, queue = source.queues.popitem(last=False)
        item, size_bytes = queue.items.popleft()
        queue.size_bytes -= size_bytes
        source.size_bytes -= size_bytes
        source.count -= 1
        self._count -= 1
        if queue.items:
            source.queues[author] = queue
        if source.queues:
            self._sources[name] = source
        return item
