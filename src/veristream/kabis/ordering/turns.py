"""A queue in which sources take turns, and the authors that each source names take turns within it."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(slots=True)
class _Source(Generic[Item]):
    queues: OrderedDict[str, deque[Item]] = field(default_factory=OrderedDict)
    count: int = 0


@dataclass(slots=True)
class Turns(Generic[Item]):
    """Work by source and author, bounded for each source and for each author within a source.

    A source is authenticated, an author is only what the source says. So who floods delays only itself, and
    a source that passes a flood on still passes on the rest.
    """

    source_max: int
    author_max: int
    _sources: OrderedDict[str, _Source[Item]] = field(default_factory=OrderedDict)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def put(self, source: str, author: str, item: Item) -> bool:
        """Queues an item; returns False if its source or author has too many."""
        known = self._sources.get(source) or _Source()
        queue = known.queues.get(author) or deque()
        if known.count >= self.source_max or len(queue) >= self.author_max:
            return False
        queue.append(item)
        known.queues[author] = queue
        known.count += 1
        self._sources[source] = known
        self._count += 1
        return True

    def take(self) -> Item:
        """Removes and returns the item whose turn it is; raises KeyError if there is none."""
        name, source = self._sources.popitem(last=False)
        author, queue = source.queues.popitem(last=False)
        item = queue.popleft()
        source.count -= 1
        self._count -= 1
        if queue:
            source.queues[author] = queue
        if source.queues:
            self._sources[name] = source
        return item
