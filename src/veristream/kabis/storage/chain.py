"""A storage party's view of the chain: keys, topics, rights, admitted batches, and released ones.

Blocks count by their certificates, which the ordering has checked. A certified block contains only
transactions that took effect (`ledger.py`), so the party checks no rule again and hashes no state, which
saves time. While no validator can be reached, the view stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from enum import Enum
from itertools import islice
from typing import Any

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Ordering
from veristream.kabis.ledger.access import AccessBook
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.retention import NO_RETENTION, KeptBatches
from veristream.kabis.protocol.actions import (
    Grant,
    Hole,
    LowWater,
    RegisterKey,
    Retention,
    Revoke,
    RevokeKey,
    Right,
    RotateKey,
    SetClosed,
    SetMembers,
    SetRetention,
    SetRole,
    SetTopic,
)
from veristream.kabis.protocol.batch import BatchHeader
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole, Members, Memberships, Party
from veristream.kabis.protocol.partitions import StreamName, stream_of
from veristream.kabis.protocol.transactions import (
    BatchConflict,
    Signed,
    Skip,
    Submit,
    Transaction,
    decode_transaction,
)
from veristream.kabis.storage.admitted import AdmittedOrder, AdmittedStream

_LOGGER = logging.getLogger(__name__)

PAUSE_S = 0.02
"""How long a party leaves validators alone between two looks, however many requests wait for the next."""
FOLLOW_EVERY_S = 1.0
BLOCKS_AT_ONCE = 100
SNAPSHOT_GAP = 100
"""A party that lacks more blocks than this starts from a snapshot, if there is one."""

Place = tuple[str, int]


class KeyStanding(Enum):
    """What the chain says about a client's key."""

    VALID = "valid"
    ENDED = "ended"
    UNKNOWN = "unknown"


class NotNextError(Exception):
    """A certified block does not follow the last one: more validators lie than the chain tolerates."""


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """The number of a topic's partitions, and whether it is validated."""

    partitions: int
    validated: bool


class ChainView:
    """Keys, topics, admitted batches and low-water marks after the last block that was taken.

    `marks` contains, for each stream, the sequence number below which all batches were released.
    `is_current` says whether the view has reached the validators' height since it was made.
    """

    def __init__(self, genesis: Genesis) -> None:
        self.genesis = genesis
        self.height = 0
        self.is_current = False
        self.marks: dict[StreamName, int] = {}
        self.topics: dict[str, TopicPolicy] = {}
        self.access = AccessBook(genesis)
        self.memberships = Memberships(genesis.members)
        self._last_id = genesis.digest()
        self._keys: dict[str, list[bytes]] = {}  # of each client by epoch
        self._ended: set[tuple[str, int]] = set()
        self._cursors: dict[tuple[str, str, int], int] = {}
        self._names: list[StreamName] = []
        self._numbers: dict[StreamName, int] = {}
        self._admitted: list[AdmittedStream] = []  # by the number of the stream
        self._orders: defaultdict[Place, AdmittedOrder] = defaultdict(AdmittedOrder)
        self._kept: defaultdict[Place, KeptBatches] = defaultdict(KeptBatches)
        self._retentions: dict[str, Retention] = {}
        self._skipped: dict[bytes, tuple[str, int, int]] = {}  # partition and end of each batch
        self._wanted = asyncio.Event()
        self._looked = asyncio.Event()
        for party in genesis.admins + genesis.clients:
            self._keys[party.name] = [party.public]

    def standing(self, name: str, public: bytes) -> KeyStanding:
        """Returns the standing of a key; one that was replaced has ended."""
        keys = self._keys.get(name, [])
        if public not in keys:
            return KeyStanding.UNKNOWN
        return KeyStanding.ENDED if self.has_ended(name, keys.index(public)) else KeyStanding.VALID

    def has_ended(self, name: str, key_epoch: int) -> bool:
        """Returns whether the chain admits nothing more under a client's key."""
        return key_epoch < len(self._keys.get(name, [])) - 1 or (name, key_epoch) in self._ended

    def is_key(self, name: str, key_epoch: int, public: bytes) -> bool:
        """Returns whether this is the client's key of the epoch."""
        keys = self._keys.get(name, [])
        return key_epoch < len(keys) and keys[key_epoch] == public

    def may(self, name: str, right: Right) -> bool:
        """Returns whether a client has a right in the next block."""
        return self.access.may(self.height + 1, name, right)

    @property
    def members(self) -> Members:
        """The members in force for the next block."""
        return self.memberships.at(self.height + 1)

    def peers(self, role: MemberRole) -> tuple[Party, ...]:
        """Returns the members with a role that are in force for the next block, or about to be."""
        return self.memberships.may_come(self.height + 1, role)

    def key_of(self, producer: str, key_epoch: int) -> bytes | None:
        """Returns a client's key of an epoch, or None."""
        keys = self._keys.get(producer, [])
        return keys[key_epoch] if key_epoch < len(keys) else None

    def places(self) -> list[tuple[Place, int]]:
        """Returns the partitions with admitted batches, and the index after the last event of each."""
        return [(place, order.next_index) for place, order in self._orders.items()]

    def admitted_from(self, place: Place, index: int) -> tuple[int, StreamName, int, bytes] | None:
        """Returns the first admitted batch that ends after an index and is kept, or None.

        That is the index after its last event, its stream, its first sequence number and its digest.
        """
        found = self._orders[place].first_after(index)
        if found is None:
            return None
        end, number, next_sequence = found
        return end, self._names[number], *self._admitted[number].last_before(next_sequence)

    def is_skipped(self, digest: bytes) -> bool:
        """Returns whether the chain has given up an admitted batch, which no party has."""
        return digest in self._skipped

    def next_sequence(self, stream: StreamName) -> int:
        """Returns the sequence number of the producer's next batch in the partition, under any key."""
        return self._cursors.get((stream.producer, stream.topic, stream.partition), 0)

    def digest_of(self, stream: StreamName, first_sequence: int) -> bytes | None:
        """Returns the digest of the admitted batch above the mark that begins with a number, or None."""
        number = self._numbers.get(stream)
        return None if number is None else self._admitted[number].digest_of(first_sequence)

    def take(self, certified: CertifiedBlock) -> None:
        """Applies the next block. Raises NotNextError if it is another."""
        header = certified.block.header
        if header.height != self.height + 1 or header.previous != self._last_id:
            raise NotNextError(f"block {header.height} does not follow block {self.height}")
        for encoded in certified.block.transactions:
            self._take_transaction(decode_transaction(encoded), header.time_ms)
        self.height, self._last_id = header.height, header.block_id()

    def resume(self, ledger: Ledger) -> None:
        """Continues after the last block of a ledger that was restored from a snapshot.

        Of a producer's streams in a partition, everything below the oldest batch that is kept was released.
        """
        assert ledger.height > self.height, "nobody goes back"
        fresh = ChainView(ledger.genesis)
        fresh._keys.clear()
        for (name, _), key in ledger.keys().items():  # sorted by epoch
            fresh._keys.setdefault(name, []).append(key.public)
        fresh._ended = {each for each, key in ledger.keys().items() if key.ended_height is not None}
        oldest = {each: cursor.next_sequence for each, cursor in ledger.cursors().items()}
        fresh._cursors = dict(oldest)
        for name, topic in ledger.topics().items():
            fresh.topics[name] = TopicPolicy(topic.partitions, topic.validated)
            fresh._retentions[name] = ledger.retention(name)
        for place, partition in ledger.partitions().items():
            order = fresh._orders[place]
            order.next_index = partition.next_index
            for number, admission in enumerate(ledger.admissions(*place, partition.low_water)):
                header = admission.signed.header
                if number == 0:
                    order.next_index = admission.first_index
                fresh._add(header, admission.signed.digest())
                if admission.skipped:
                    fresh._skipped[admission.digest] = (*place, admission.next_index)
                fresh._kept[place].admit(admission.next_index, admission.time_ms, NO_RETENTION)
                stream = (header.producer, *place)
                oldest[stream] = min(oldest[stream], header.first_sequence)
        for (producer, name, partition_number), sequence in oldest.items():
            for key_epoch in range(len(fresh._keys.get(producer, []))):
                fresh.marks[StreamName(name, partition_number, producer, key_epoch)] = sequence
        for name in ("marks", "topics", "_keys", "_ended", "_cursors", "_kept", "_retentions", "_skipped"):
            setattr(self, name, getattr(fresh, name))
        self.access = ledger.access_book()
        self.memberships = ledger.memberships
        self._names, self._numbers, self._admitted = fresh._names, fresh._numbers, fresh._admitted
        self._orders, self.height, self._last_id = fresh._orders, ledger.height, ledger.last_id

    def _take_transaction(self, transaction: Transaction, time_ms: int) -> None:
        match transaction:
            case Submit():
                self._admit(transaction)
                self._retain(transaction, time_ms)
            case Signed(action=SetRetention(topic, retention)):
                self._retentions[topic] = retention
            case Signed(action=SetTopic(topic, partitions, validated)):
                self.topics[topic] = TopicPolicy(partitions, validated)
            case Signed(action=LowWater(topic, partition, index)):
                self._let_go((topic, partition), index)
            case Signed(action=Grant() | Revoke() | SetRole() | SetClosed() as action):
                self.access.take(self.height + 1, action)
            case Signed(action=SetMembers(members, height)):
                self.memberships = self.memberships.changed(height, members)
            case Signed(action=RegisterKey(name, _, public)):
                self._keys.setdefault(name, []).append(public)
            case Signed(author=name, action=RotateKey(public)):
                self._keys.setdefault(name, []).append(public)
            case Signed(action=RevokeKey(name, key_epoch)):
                self._ended.add((name, key_epoch))
            case Skip(hole) | Signed(action=Hole() as hole):
                found = self.admitted_from((hole.topic, hole.partition), hole.first_index)
                if found is not None:
                    self._skipped[hole.digest] = (hole.topic, hole.partition, found[0])
            case BatchConflict():  # it fences the key that signed both
                header = transaction.first.header
                self._ended.add((header.producer, header.key_epoch))
            case _:
                pass

    def _admit(self, submit: Submit) -> None:
        header = submit.signed.header
        self._add(header, submit.signed.digest())
        self._cursors[header.producer, header.topic, header.partition] = header.next_sequence

    def _add(self, header: BatchHeader, digest: bytes) -> None:
        stream = stream_of(header)
        number = self._numbers.get(stream)
        if number is None:
            number = self._numbers[stream] = len(self._names)
            self._names.append(stream)
            self._admitted.append(AdmittedStream())
        self._admitted[number].add(header.first_sequence, digest)
        self._orders[header.topic, header.partition].add(header.count, number, header.next_sequence)

    def _retain(self, submit: Submit, time_ms: int) -> None:
        """Releases what the ledger released with the admission of this batch."""
        place = (submit.signed.header.topic, submit.signed.header.partition)
        retention = self._retentions.get(place[0], NO_RETENTION)
        mark = self._kept[place].admit(self._orders[place].next_index, time_ms, retention)
        if mark:
            self._let_go(place, mark)

    def _let_go(self, place: Place, index: int) -> None:
        self._kept[place].let_go(index)
        gone = dict(self._orders[place].let_go(index))  # of each stream the last, which is the highest
        for number, next_sequence in gone.items():
            self.marks[self._names[number]] = next_sequence
            self._admitted[number].let_go(next_sequence)
        self._skipped = {
            digest: kept for digest, kept in self._skipped.items() if kept[:2] != place or kept[2] > index
        }

    def dump(self) -> tuple[dict[str, Any], list[bytes]]:
        """Returns the view as values for JSON, and columns of bytes, for `restore`."""
        values = {
            "height": self.height,
            "last": self._last_id.hex(),
            "keys": {name: [key.hex() for key in keys] for name, keys in self._keys.items()},
            "ended": sorted(self._ended),
            "topics": {name: [each.partitions, each.validated] for name, each in self.topics.items()},
            "cursors": [[*place, cursor] for place, cursor in self._cursors.items()],
            "streams": [astuple(name) for name in self._names],
            "marks": [[*astuple(name), mark] for name, mark in self.marks.items()],
            "orders": [[*place, order.next_index] for place, order in self._orders.items()],
            "retentions": {topic: astuple(each) for topic, each in self._retentions.items()},
            "access": self.access.dump(),
            "skipped": [[digest.hex(), *kept] for digest, kept in sorted(self._skipped.items())],
            "members": [[height, each.encode().hex()] for height, each in self.memberships.changes],
        }
        columns = [column for stream in self._admitted for column in stream.columns()]
        for place, order in self._orders.items():
            columns += (*order.columns(), *self._kept[place].columns())
        return values, columns

    def restore(self, values: dict[str, Any], columns: Sequence[bytes]) -> None:
        """Takes over what `dump` returned; raises ValueError, KeyError or TypeError for anything else."""
        self.height, self._last_id = values["height"], bytes.fromhex(values["last"])
        self._keys = {name: list(map(bytes.fromhex, keys)) for name, keys in values["keys"].items()}
        self._ended = {(name, key_epoch) for name, key_epoch in values["ended"]}
        self.topics = {name: TopicPolicy(*policy) for name, policy in values["topics"].items()}
        self._cursors = {(name, topic, part): cursor for name, topic, part, cursor in values["cursors"]}
        self.access.restore(values["access"])
        self._skipped = {bytes.fromhex(digest): (*kept,) for digest, *kept in values.get("skipped", [])}
        changes = values.get("members", [])  # not in a view of an earlier version, which knows no changes
        self.memberships = Memberships(
            self.genesis.members,
            [(height, Members.decode(bytes.fromhex(encoded))) for height, encoded in changes],
        )
        rest = iter(columns)
        self.marks = {StreamName(*parts): mark for *parts, mark in values["marks"]}
        for parts in values["streams"]:
            name = StreamName(*parts)
            self._numbers[name] = len(self._names)
            self._names.append(name)
            self._admitted.append(AdmittedStream())
            self._admitted[-1].restore(list(islice(rest, 2)))
        for topic, partition, next_index in values["orders"]:
            self._orders[topic, partition].restore(next_index, list(islice(rest, 3)))
            self._kept[topic, partition].restore(list(islice(rest, 2)))
        self._retentions = {topic: Retention(*each) for topic, each in values["retentions"].items()}

    async def look_again(self, timeout_s: float) -> None:
        """Waits until the chain was read once more, up to a time."""
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._looked.wait()

    async def rest(self, seconds: float) -> None:
        """Waits until somebody wants to look again, up to a time; tells those who wait that it was read."""
        self._looked.set()
        self._looked = asyncio.Event()
        await asyncio.sleep(min(seconds, PAUSE_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        self._wanted.clear()


async def _resume(view: ChainView, ordering: Ordering, verify: Verify) -> bool:
    """Continues from a snapshot, if nobody returns the next block; returns whether there is a good one."""
    ledger = await ordering.snapshot(view.height, Follower(view.genesis, verify).verify_snapshot)
    if ledger is None:
        return False
    view.resume(ledger)
    _LOGGER.info("continues from a snapshot at height %d", ledger.height)
    return True


async def catch_up(view: ChainView, ordering: Ordering, verify: Verify = verify_signature) -> None:
    """Applies the blocks up to the height that the validators report, or a snapshot if it is far.

    Raises NotNextError, or one of `FAILURES`.
    """
    ordering.heed(view.memberships.changes, view.height)
    height = (await ordering.status()).height
    if height - view.height > SNAPSHOT_GAP:
        await _resume(view, ordering, verify)
    while view.height < height:
        blocks = await ordering.read(view.height + 1, min(height, view.height + BLOCKS_AT_ONCE))
        for certified in blocks:
            view.take(certified)
        ordering.heed(view.memberships.changes, view.height)
        if not blocks and not await _resume(view, ordering, verify):
            break
    view.is_current = view.is_current or view.height >= height


async def follow_chain(view: ChainView, ordering: Ordering, every_s: float = FOLLOW_EVERY_S) -> None:
    """Applies blocks as they are decided, without end, whatever the validators do."""
    while True:
        try:
            await catch_up(view, ordering)
        except NotNextError as error:
            _LOGGER.error("%s; keys and marks stay as they were", error)
        except FAILURES as error:
            _LOGGER.debug("no validator answers: %s", error)
        await view.rest(every_s)
