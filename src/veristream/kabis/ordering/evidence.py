"""Finds contradicting votes of one validator, even if the second arrives after the decision.

A height is decided as soon as a quorum has voted. The second vote of an equivocating validator may arrive
only after that, so votes of the last decided height are still compared.
"""

from __future__ import annotations

from collections.abc import Callable

from veristream.kabis.ordering.interface import Conflict
from veristream.kabis.ordering.log import MessageLog
from veristream.kabis.ordering.messages import Vote
from veristream.kabis.protocol.receipts import SignedVote, VoteKind
from veristream.kabis.protocol.transactions import VoteConflict


class LateVotes:
    """The message log of the last decided height, for comparison with late votes."""

    def __init__(self) -> None:
        self._log: MessageLog | None = None

    def decided(self, log: MessageLog) -> None:
        """Keeps the log of a decided height; only late votes are added to it."""
        self._log = log

    def compare(self, vote: Vote, verify: Callable[[Vote], None]) -> Conflict | None:
        """Returns a conflict with an earlier vote; verifies the late vote only if it contradicts one."""
        log = self._log
        if log is None or log.height != vote.height:
            return None
        first = log.round(vote.round).first_votes.get((vote.step, vote.sender))
        if first is None or first.identifier == vote.identifier:
            return None
        verify(vote)
        contradiction = log.add(vote)
        return None if contradiction is None else Conflict(*contradiction)


def to_evidence(conflict: Conflict) -> VoteConflict | None:
    """Returns the transaction that records the conflict on the ledger; None if it is not about votes."""
    first, second = conflict.first, conflict.second
    if isinstance(first, Vote) and isinstance(second, Vote):
        return VoteConflict(_to_signed_vote(first), _to_signed_vote(second))
    return None


def _to_signed_vote(vote: Vote) -> SignedVote:
    return SignedVote(
        vote.sender, VoteKind(vote.step), vote.height, vote.round, vote.identifier, vote.signature
    )
