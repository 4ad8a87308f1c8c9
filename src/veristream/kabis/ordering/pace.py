"""Adapts timeouts and block sizes to the speed of the machine.

Short timeouts cost rounds, long timeouts cost time when a proposer is down. A proposal that arrives after
its timeout lengthens them; successful rounds slowly shorten them again. Correctness does not depend on
this, because timeouts grow with each round in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

from veristream.kabis.ordering.tendermint import Durations

FACTOR_MAX = 8.0
SLOWER, FASTER = 1.5, 0.85  # one late proposal in four heights does not slow down the chain permanently
TRANSACTIONS_MIN, TRANSACTIONS_MAX = 16, 2_000
LONG_MS, SHORT_MS = 250, 120

SHORTEST = Durations(propose_ms=200, prevote_ms=80, precommit_ms=40, growth_ms=60)


@dataclass(slots=True)
class Pace:
    """The adapted timeouts and block size; `shortest` are the minimum timeouts."""

    shortest: Durations = SHORTEST
    transactions: int = 100
    factor: float = 1.0

    @property
    def durations(self) -> Durations:
        """The current timeouts."""
        shortest, factor = self.shortest, self.factor
        return Durations(
            int(shortest.propose_ms * factor),
            int(shortest.prevote_ms * factor),
            int(shortest.precommit_ms * factor),
            int(shortest.growth_ms * factor),
        )

    def gave_up_too_early(self) -> None:
        """Lengthens the timeouts after a late proposal."""
        self.factor = min(FACTOR_MAX, self.factor * SLOWER)

    def decided(self, round_number: int, took_ms: int, count: int) -> None:
        """Adapts to the time that a block of `count` transactions took."""
        if round_number == 0:
            self.factor = max(1.0, self.factor * FASTER)
        if took_ms > LONG_MS and count >= self.transactions // 2:
            self.transactions = max(TRANSACTIONS_MIN, self.transactions // 2)
        elif took_ms < SHORT_MS and count >= self.transactions:
            self.transactions = min(TRANSACTIONS_MAX, self.transactions * 3 // 2)
