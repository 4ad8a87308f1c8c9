"""What simulations and tests build of votes and records: certificates, a validator's memory, a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from veristream.errors import EnvironmentFailure
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ordering.durable import Memory, decode_record
from veristream.kabis.ordering.messages import Commit
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.receipts import CommitCertificate, SignedVote, VoteKind


def certify(votes: Sequence[SignedVote]) -> CommitCertificate:
    """Builds a certificate of precommits that agree; several of one validator count once."""
    first = votes[0]
    decided = (first.kind, first.height, first.round_number, first.block_id)
    if first.block_id is None or first.kind is not VoteKind.PRECOMMIT:
        raise ValueError("only precommits for a block certify it")
    if any((vote.kind, vote.height, vote.round_number, vote.block_id) != decided for vote in votes):
        raise ValueError("these votes do not agree")
    signatures = {vote.validator: vote.signature for vote in votes}
    return CommitCertificate(
        first.height, first.round_number, first.block_id, tuple(sorted(signatures.items()))
    )


def recover(records: Iterable[bytes]) -> Memory:
    """Rebuilds the memory from the records of a log, oldest first."""
    memory = Memory()
    for record in records:
        memory.take(decode_record(record))
    return memory


def restore(ledger: Ledger, load: Callable[[int], Commit | None]) -> None:
    """Applies all stored blocks to a fresh ledger."""
    while (commit := load(ledger.height + 1)) is not None:
        try:
            ledger.apply(Block.decode(commit.value.content))
        except (DecodeError, InvalidBlockError) as error:
            raise EnvironmentFailure(
                f"the stored block {ledger.height + 1} does not follow the previous one: {error}",
                hint="restore the validator's folder from a backup, or start it with an empty folder",
            ) from error
