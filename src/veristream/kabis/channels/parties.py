"""The channels to all storage parties of a chain, which follow its members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from veristream.kabis.channels.interfaces import Channels, Storage
from veristream.kabis.protocol.members import Members, Memberships, Party


class StorageParties(Sequence[Storage]):
    """A channel to each storage party: first those in force, then those about to be, then former ones.

    A channel is replaced when the party has another key or address. Others stay open.
    """

    def __init__(self, founding: Iterable[Party], open_one: Callable[[Party], Storage]) -> None:
        self._open_one = open_one
        self._known: dict[str, Party] = {}
        self._all: tuple[Storage, ...] = ()
        self._seen: tuple[Memberships, Members] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._take(founding)

    def follow(self, memberships: Memberships, height: int) -> None:
        """Opens and replaces channels for the members at a height."""
        now = (memberships, memberships.at(height))
        if self._seen is None or any(a is not b for a, b in zip(self._seen, now, strict=True)):
            self._seen = now
            self._take(memberships.storage_parties(height))

    def _take(self, parties: Iterable[Party]) -> None:
        before = {party.name: party for party in self._all}
        known, opened = {party.name: party for party in parties}, []
        for name, party in known.items():
            if self._known.get(name) == party:
                opened.append(before[name])
                continue
            if name in before:
                task = asyncio.get_running_loop().create_task(before[name].close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            opened.append(self._open_one(party))
        self._known, self._all = known, tuple(opened)

    @overload
    def __getitem__(self, index: int) -> Storage: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Storage]: ...

    def __getitem__(self, index: int | slice) -> Storage | Sequence[Storage]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Storage]:
        return iter(self._all)

    async def close(self) -> None:
        """Closes all channels."""
        for party in self._all:
            await party.close()
        if self._closing:
            await asyncio.wait(self._closing)


@dataclass(frozen=True)
class FollowingChannels(Channels):
    """Channels whose storage parties follow the members."""

    storage: StorageParties

    def follow(self, memberships: Memberships, height: int) -> None:
        """Opens and replaces channels for the members at a height."""
        self.storage.follow(memberships, height)

    async def close(self) -> None:
        """Closes both channels."""
        await self.storage.close()
        await self.ordering.close()
