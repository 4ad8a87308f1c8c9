"""How long a validator waits and how much it puts into a block: learnt, so that it fits the machine.

Waiting too briefly costs rounds, waiting too long costs time when a proposer is down. A proposal that comes
after we gave it up shows the first; rounds that go well slowly take the waiting back. Correctness does not
depend on it: in later rounds the waiting grows anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.ordering.tendermint import Durations

FACTOR_MAX = 8.0
SLOWER, FASTER = 1.5, 0.85  # one late proposal in four heights does not slow the chain down for good
TRANSACTIONS_MIN, TRANSACTIONS_MAX = 16, 2_000
LONG_MS, SHORT_MS = 250, 120

SHORTEST = Durations(propose_ms=200, prevote_ms=80, precommit_ms=40, growth_ms=60)


@dataclass(slots=True)
class Pace:
    """What was learnt; `shortest` are the durations when all goes well."""

    shortest: Durations = SHORTEST
    transactions: int = 100
    factor: float = 1.0

    @property
    def durations(self) -> Durations:
        """How long to wait now."""
        shortest, factor = self.shortest, self.factor
        return Durations(
            int(shortest.propose_ms * factor),
            int(shortest.prevote_ms * factor),
            int(shortest.precommit_ms * factor),
            int(shortest.growth_ms * factor),
        )

    def gave_up_too_early(self) -> None:
        """A proposal came late."""
        self.factor = min(FACTOR_MAX, self.factor * SLOWER)

    def decided(self, round_number: int, took_ms: int, count: int) -> None:
        """A height took so long for a block of so many transactions."""
        if round_number == 0:
            self.factor = max(1.0, self.factor * FASTER)
        if took_ms > LONG_MS and count >= self.transactions // 2:
            self.transactions = max(TRANSACTIONS_MIN, self.transactions // 2)
        elif took_ms < SHORT_MS and count >= self.transactions:
            self.transactions = min(TRANSACTIONS_MAX, self.transactions * 3 // 2)
