"""Fetches the batches that the ledger admitted from storage parties that may be silent or lie.

The ledger has the header of each batch, and every answer is checked against it. A wrong answer is the fault
of the party, not of the producer.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Storage
from veristream.kabis.client.clock import monotonic_ms
from veristream.kabis.client.consumed import Origin, Place
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission, Partition
from veristream.kabis.protocol.batch import Batch, BatchError
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.members import MemberRole

DEMOTED_MS = 5_000
PATIENCE_S = 1.0
"""How long a party may take in the first round; in each further round it may take twice as long."""
RETRY_S = 0.1
SUSPICIONS_KEPT = 1000


class WrongAnswerError(Exception):
    """The answer of a party is not the batch that was admitted."""


def check_answer(admission: Admission, data: bytes) -> Batch:
    """Returns the admitted batch in a party's answer. Raises WrongAnswerError if it is another."""
    try:
        batch = Batch.decode(data)
        if batch.header != admission.signed.header:
            raise WrongAnswerError("another batch than was asked for")
        batch.verify_contents()
    except (DecodeError, BatchError) as error:
        raise WrongAnswerError(str(error)) from error
    return batch


def find_forgery(admission: Admission, ledger: Ledger, verify: Verify) -> ModelError | None:
    """Returns an error if a batch was admitted that its producer never signed."""
    header = admission.signed.header
    key = ledger.key(header.producer, header.key_epoch)
    assert key is not None, "a batch was admitted under a key"
    return find_false_signature(admission, key.public, verify)


def find_false_signature(admission: Admission, public: bytes, verify: Verify) -> ModelError | None:
    """Returns an error if a batch was admitted without a signature by this key."""
    header = admission.signed.header
    try:
        admission.signed.verify(public, verify)
    except SignatureError:
        return ModelError(
            f"{header.topic}-{header.partition}: the validators admitted a batch at index "
            f"{admission.first_index} that {header.producer} never signed",
            hint="more than F validators lie: the chain cannot be trusted any more",
        )
    return None


def require_party(ledger: Ledger, name: str) -> None:
    """Raises ModelError unless a storage party has this name."""
    names = [party.name for party in ledger.members.storage]
    if name not in names:
        raise ModelError(f"there is no storage party {name!r}", hint=f"there are {', '.join(names)}")


def require_partition(ledger: Ledger, place: Place) -> Partition:
    """Returns a partition's indices. Raises UnknownTopicError if the ledger has no such partition."""
    policy = ledger.topic(place[0])
    if policy is None or not 0 <= place[1] < policy.partitions:
        raise UnknownTopicError(f"{place[0]}-{place[1]}", "no such topic or partition")
    return ledger.partition(*place)


def origin_of(admission: Admission) -> Origin:
    """Returns what the events of an admitted batch have in common."""
    header = admission.signed.header
    return Origin(
        header.topic,
        header.partition,
        header.producer,
        admission.height,
        admission.time_ms,
        admission.digest,
    )


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A storage party gave a wrong answer or none. It says nothing against a producer."""

    party: str
    digest: bytes
    why: str


class Standing:
    """The record of the storage parties' answers, which decides whom to ask first.

    `nearest` is asked before all others while its answers are good.
    """

    def __init__(self, nearest: str | None = None) -> None:
        self._nearest = nearest
        self.suspicions: deque[Suspicion] = deque(maxlen=SUSPICIONS_KEPT)
        self.counts: Counter[str] = Counter()
        self._demoted_ms: dict[str, int] = {}
        self._former: frozenset[str] = frozenset()

    def suspect(self, party: str, digest: bytes, why: str, now_ms: int) -> None:
        """Notes a suspicion, and asks other parties first for a while."""
        self.suspicions.append(Suspicion(party, digest, why))
        self.counts[party] += 1
        self.demote(party, now_ms)

    def demote(self, party: str, now_ms: int) -> None:
        """Asks other parties first for a while."""
        self._demoted_ms[party] = now_ms + DEMOTED_MS

    def meet(self, ledger: Ledger) -> list[str]:
        """Follows the members; returns the storage parties, of which former ones are asked last."""
        memberships, height = ledger.memberships, ledger.height + 1
        parties = [party.name for party in memberships.storage_parties(height)]
        present = {party.name for party in memberships.may_come(height, MemberRole.STORAGE)}
        self._former = frozenset(parties) - present
        return parties

    def order(self, admission: Admission, parties: Sequence[str], now_ms: int) -> list[str]:
        """Returns the parties in the order to ask them: the nearest, those that gave receipts, the others.

        Those that gave receipts take turns, by the batch's digest, so that they share the work. Former
        parties are asked last.
        """
        vouched = list(admission.parties)
        turn = admission.digest[0] % len(vouched)
        order = [*vouched[turn:], *vouched[:turn]]
        order += [party for party in parties if party not in order]
        late = {name for name, until_ms in self._demoted_ms.items() if until_ms > now_ms}
        return sorted(order, key=lambda name: (name in late, name in self._former, name != self._nearest))


class Fetcher:
    """Fetches admitted batches from the first party that returns the right one."""

    def __init__(self, parties: Sequence[Storage], timeout_s: float) -> None:
        self.standing = Standing()
        self._parties = parties
        self._timeout_s = timeout_s

    async def fetch(self, admission: Admission) -> Batch:
        """Returns the admitted batch. Raises EnvironmentFailure if no party returns it in time."""
        deadline_ms = monotonic_ms() + int(self._timeout_s * 1000)
        patience_s = PATIENCE_S
        while True:
            parties = {party.name: party for party in self._parties}
            for name in self.standing.order(admission, list(parties), monotonic_ms()):
                if name not in parties:
                    continue  # a former party that this client does not know
                batch = await self._ask(parties[name], admission, patience_s)
                if batch is not None:
                    return batch
            if monotonic_ms() >= deadline_ms:
                raise self._explain(admission)
            await asyncio.sleep(RETRY_S)
            patience_s *= 2

    async def _ask(self, party: Storage, admission: Admission, patience_s: float) -> Batch | None:
        """Returns the batch if this party has it, and otherwise notes what was wrong."""
        try:
            async with asyncio.timeout(patience_s):
                answer = await party.fetch_bytes(admission.digest)
            if isinstance(answer, bytes):
                return check_answer(admission, answer)
            why = "it does not have the batch" if party.name in admission.parties else ""
        except (WrongAnswerError, *FAILURES) as error:
            why = str(error) or "no answer"
        if why:
            self.standing.suspect(party.name, admission.digest, why, monotonic_ms())
        return None

    def _explain(self, admission: Admission) -> EnvironmentFailure:
        header = admission.signed.header
        last = {
            each.party: each.why for each in self.standing.suspicions if each.digest == admission.digest
        }
        told = "; ".join(f"{party}: {why}" for party, why in sorted(last.items()))
        return EnvironmentFailure(
            f"no storage party returns the batch of {header.topic}-{header.partition} at index"
            f" {admission.first_index} ({told})",
            "see `veristream kabis status`; validating consumers skip a batch that every party denies",
        )
