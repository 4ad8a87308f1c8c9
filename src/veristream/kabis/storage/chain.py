"""A storage party's view of the chain: valid keys, and released batches.

Blocks count by their certificates, which the ordering has checked. A certified block contains only
transactions that took effect (`ledger.py`), so the party checks no rule again and hashes no state, which
saves time. While no validator can be reached, the view stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from dataclasses import dataclass
from enum import Enum

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Ordering
from veristream.kabis.protocol.actions import LowWater, RegisterKey, RevokeKey, RotateKey
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.protocol.transactions import (
    BatchConflict,
    Signed,
    Submit,
    Transaction,
    decode_transaction,
)

_LOGGER = logging.getLogger(__name__)

FOLLOW_EVERY_S = 1.0
BLOCKS_AT_ONCE = 100

Place = tuple[str, int]


class KeyStanding(Enum):
    """What the chain says about a client's key."""

    VALID = "valid"
    ENDED = "ended"
    UNKNOWN = "unknown"


class NotNextError(Exception):
    """A certified block does not follow the last one: more validators lie than the chain tolerates."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A batch in the order of its partition: the end of its indices, and its sequence numbers."""

    next_index: int
    stream: StreamName
    next_sequence: int


class ChainView:
    """Keys and low-water marks after the last block that was taken.

    `marks` contains, for each stream, the sequence number below which all batches were released.
    """

    def __init__(self, genesis: Genesis) -> None:
        self.height = 0
        self.marks: dict[StreamName, int] = {}
        self._last_id = genesis.digest()
        self._keys: dict[str, list[bytes]] = {}  # of each client by epoch
        self._ended: set[tuple[str, int]] = set()
        self._next_index: defaultdict[Place, int] = defaultdict(int)
        self._kept: defaultdict[Place, deque[_Admitted]] = defaultdict(deque)
        for party in genesis.admins + genesis.clients:
            self._keys[party.name] = [party.public]

    def standing(self, name: str, public: bytes) -> KeyStanding:
        """Returns the standing of a key; one that was replaced has ended."""
        keys = self._keys.get(name, [])
        if public not in keys:
            return KeyStanding.UNKNOWN
        key_epoch = keys.index(public)
        ended = key_epoch < len(keys) - 1 or (name, key_epoch) in self._ended
        return KeyStanding.ENDED if ended else KeyStanding.VALID

    def take(self, certified: CertifiedBlock) -> None:
        """Applies the next block. Raises NotNextError if it is another."""
        header = certified.block.header
        if header.height != self.height + 1 or header.previous != self._last_id:
            raise NotNextError(f"block {header.height} does not follow block {self.height}")
        for encoded in certified.block.transactions:
            self._take_transaction(decode_transaction(encoded))
        self.height, self._last_id = header.height, header.block_id()

    def _take_transaction(self, transaction: Transaction) -> None:
        match transaction:
            case Submit():
                self._admit(transaction)
            case Signed(action=LowWater(topic, partition, index)):
                self._let_go((topic, partition), index)
            case Signed(action=RegisterKey(name, _, public)):
                self._keys.setdefault(name, []).append(public)
            case Signed(author=name, action=RotateKey(public)):
                self._keys.setdefault(name, []).append(public)
            case Signed(action=RevokeKey(name, key_epoch)):
                self._ended.add((name, key_epoch))
            case BatchConflict():  # it fences the key that signed both
                header = transaction.first.header
                self._ended.add((header.producer, header.key_epoch))
            case _:
                pass

    def _admit(self, submit: Submit) -> None:
        header = submit.signed.header
        place = (header.topic, header.partition)
        self._next_index[place] += header.count
        stream = StreamName(*place, header.producer, header.key_epoch)
        self._kept[place].append(_Admitted(self._next_index[place], stream, header.next_sequence))

    def _let_go(self, place: Place, index: int) -> None:
        kept = self._kept[place]
        while kept and kept[0].next_index <= index:
            gone = kept.popleft()
            self.marks[gone.stream] = max(gone.next_sequence, self.marks.get(gone.stream, 0))


async def follow_chain(view: ChainView, ordering: Ordering, every_s: float = FOLLOW_EVERY_S) -> None:
    """Applies blocks as they are decided, without end, whatever the validators do."""
    while True:
        try:
            height = (await ordering.status()).height
            while view.height < height:
                last = min(height, view.height + BLOCKS_AT_ONCE)
                blocks = await ordering.read(view.height + 1, last)
                for certified in blocks:
                    view.take(certified)
                if not blocks:
                    break
        except NotNextError as error:
            _LOGGER.error("%s; keys and marks stay as they were", error)
        except FAILURES as error:
            _LOGGER.debug("no validator answers: %s", error)
        await asyncio.sleep(every_s)
