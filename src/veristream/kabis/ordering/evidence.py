"""Two votes of one validator in one place: how they are found when the second comes late, and held on to.

A height is decided as soon as a quorum has voted. Whoever says two things there may well be heard to say
the second only then, and would get away with it if nobody listened any more.
"""

from __future__ import annotations

from collections.abc import Callable

from veristream.kabis.ordering.interface import Conflict
from veristream.kabis.ordering.log import MessageLog
from veristream.kabis.ordering.messages import Vote
from veristream.kabis.protocol.receipts import SignedVote, VoteKind
from veristream.kabis.protocol.transactions import VoteConflict


class LateVotes:
    """What is known of the height that was decided last, to be compared with votes that come after it."""

    def __init__(self) -> None:
        self._log: MessageLog | None = None

    def decided(self, log: MessageLog) -> None:
        """A height is over; nothing but late votes is added to its log any more."""
        self._log = log

    def compare(self, vote: Vote, verify: Callable[[Vote], None]) -> Conflict | None:
        """What a late vote shows together with an earlier one; only one that contradicts it is verified."""
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
    """A transaction that proves it on the ledger; None if it is not about votes."""
    first, second = conflict.first, conflict.second
    if isinstance(first, Vote) and isinstance(second, Vote):
        return VoteConflict(_to_signed_vote(first), _to_signed_vote(second))
    return None


def _to_signed_vote(vote: Vote) -> SignedVote:
    return SignedVote(
        vote.sender, VoteKind(vote.step), vote.height, vote.round, vote.identifier, vote.signature
    )
