"""A storage client for tests: it checks the batches that it reads, and sends every kind of request."""

from __future__ import annotations

from veristream.kabis.channels.failures import LyingPartyError, decode_answer
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, BatchError
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.storage import messages
from veristream.kabis.storage.client import FETCH_BYTES, StorageClient
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Batches


def fetch_digest(core: StorageCore, digest: bytes) -> bytes | Absent | Below:
    """Returns a copy of the batch whose header has this digest."""
    found = core.view_digest(digest)
    return found if isinstance(found, Absent | Below) else bytes(found)


def fetch_first(core: StorageCore, stream: StreamName, first_sequence: int) -> bytes | Absent | Below:
    """Returns the batch that begins with a sequence number; of two, the one that came first."""
    found = core.fetch_range(stream, first_sequence, 1)
    if isinstance(found, Below):
        return found
    begins = found and Batch.decode(found[0]).header.first_sequence == first_sequence
    return found[0] if begins else Absent()


class CheckingClient(StorageClient):
    """Returns a batch only if it has the header that was asked for and the events under its root."""

    async def fetch(
        self, stream: StreamName, first_sequence: int, bytes_max: int = FETCH_BYTES
    ) -> tuple[Batch, ...] | Below:
        """Returns the batches of a stream from the one with a sequence number on, as many as fit."""
        found = await self.fetch_range(stream, first_sequence, bytes_max)
        if isinstance(found, Below):
            return found
        batches = tuple(map(self._decode_batch, found))
        for batch in batches:
            header = batch.header
            named = (header.topic, header.partition, header.producer, header.key_epoch)
            asked = (stream.topic, stream.partition, stream.producer, stream.key_epoch)
            if named != asked or header.next_sequence <= first_sequence:
                raise LyingPartyError("a batch that was not asked for")
        return batches

    async def fetch_digest(self, digest: bytes) -> Batch | Absent | Below:
        """Returns the batch whose header has this digest."""
        body = await self.fetch_bytes(digest)
        if not isinstance(body, bytes):
            return body
        batch = self._decode_batch(body)
        if batch.digest() != digest:
            raise LyingPartyError("a batch with another digest")
        return batch

    async def catch_up(self, position: int, bytes_max: int = FETCH_BYTES) -> Batches | Below:
        """Returns the encoded batches of the party's log from a position on, unchecked; for parties."""
        request = messages.CatchUp(position, bytes_max)
        return await self._read(Batches, messages.Operation.CATCH_UP, request)

    async def raise_low_water(self, name: StreamName | PartitionName, low_water: int) -> None:
        """Allows the party to remove what is below the mark."""
        await self._ask(messages.Operation.LOW_WATER, messages.RaiseLowWater(name, low_water).encode())

    def _decode_batch(self, data: bytes) -> Batch:
        batch = decode_answer(Batch.decode, data)
        if batch.header.chain_id != self._identity.chain_id:
            raise LyingPartyError("a batch of another chain")
        try:
            batch.verify_contents()
        except BatchError as error:
            raise LyingPartyError(f"{self._party.name}: {error}") from error
        return batch
