"""A producer's chain after a restart: the recovered batches that continue the chain on the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from veristream.kabis.ledger.state import Cursor
from veristream.kabis.protocol.batch import Batch, BatchError, Stream
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import SignatureError, Verify


def find_continuation(
    stream: Stream, batches: Iterable[Batch], cursor: Cursor, is_signed: Callable[[Batch], bool]
) -> list[Batch]:
    """Returns the batches of the stream that follow the cursor without a gap."""
    found = []
    next_sequence, last = cursor.next_sequence, cursor.last
    for batch in sorted(batches, key=lambda each: each.header.first_sequence):
        header = batch.header
        named = (header.chain_id, header.topic, header.partition, header.producer, header.key_epoch)
        wanted = (stream.chain_id, stream.topic, stream.partition, stream.producer, stream.key_epoch)
        follows = (header.first_sequence, header.previous) == (next_sequence, last)
        if named == wanted and follows and is_signed(batch):
            found.append(batch)
            next_sequence, last = header.next_sequence, batch.digest()
    return found


def is_signed(public: bytes, verify: Verify, batch: Batch) -> bool:
    """Whether the batch's header is signed by this key."""
    try:
        batch.signed.verify(public, verify)
    except SignatureError:
        return False
    return True


def decode_batches(answers: Iterable[Sequence[bytes]]) -> list[Batch]:
    """Returns every distinct batch in the answers; ignores what cannot be decoded."""
    found: dict[bytes, Batch] = {}
    for answer in answers:
        for data in answer:
            try:
                batch = Batch.decode(data)
                batch.verify_contents()
            except (DecodeError, BatchError):
                continue
            found[batch.digest()] = batch
    return list(found.values())
