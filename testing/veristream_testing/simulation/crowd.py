"""Simulates validators while one client floods them and some of them are of a newer version.

The faults are those of a scenario; once the network has healed, the flood begins, and the other clients
begin to submit. Checked in addition: others' transactions are decided within a few blocks (fairness), and
nobody is refused for offering kinds of transactions that only a newer version knows (verification).
"""

from __future__ import annotations

from collections.abc import Callable

from veristream.kabis.ordering.mempool import find_author
from veristream.kabis.ordering.pace import Pace
from veristream.kabis.ordering.peers import Offer
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.ordering.validator import Send, ValidatorCore
from veristream.kabis.protocol.actions import JoinGroup
from veristream.kabis.protocol.codec import domain_tag
from veristream.kabis.protocol.transactions import Author, sign_action
from veristream_testing.simulation.chain import CHAIN, key_of
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.scenario import HEAL_MS, Scenario
from veristream_testing.simulation.validators import SETTINGS, Host, Outcome, Simulation
from veristream_testing.simulation.world import ViolationError

FLOODER = "client1"
FLOOD = 200
BLOCK_TRANSACTIONS = 4
BLOCKS_MAX = 16
"""How many blocks an honest transaction may wait for: liars propose some of them, and others lag."""
NEWER = domain_tag("freeze-topic") + b"what only a newer version reads"


class _SteadyPace(Pace):
    """Blocks of one size, so that a flood fills many."""

    def decided(self, round_number: int, took_ms: int, count: int) -> None:
        return


class Crowd(Simulation):
    """One run with a flood; validators with an even index are of a newer version."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        author = Author(CHAIN, FLOODER, 0, key_of(FLOODER))
        joins = [JoinGroup("group", "0", ("orders",), 1_000 + number) for number in range(FLOOD)]
        self.flood = [sign_action(author, number, join).encode() for number, join in enumerate(joins, 1)]
        self._asked: dict[bytes, int] = {}

    def _make_validator(self, index: int, store: BlockStore, records: Disk) -> ValidatorCore:
        validator = super()._make_validator(index, store, records)
        validator.pace = _SteadyPace(SETTINGS.durations, BLOCK_TRANSACTIONS)
        return validator

    def _begin(self) -> None:
        super()._begin()
        self.at(HEAL_MS, self._pour)

    def _pour(self) -> None:
        for encoded in self.flood:
            for host in self.hosts.values():
                if host.up:
                    self._do(host, host.validator.submit(encoded, self._clock_ms)[1])

    def _submitter(self, encoded: bytes) -> Callable[[], None]:
        """Returns a client that begins after the flood."""
        give = super()._submitter(encoded)

        def give_late() -> None:
            if encoded not in self._asked:
                self._asked[encoded] = max(self._ids, default=0)
            give()

        return lambda: self.at(self.now_ms + HEAL_MS + 1, give_late)

    def _post(self, host: Host, send: Send) -> None:
        if isinstance(send.message, Offer) and host.index % 2 == 0:
            super()._post(host, Send(send.receiver, Offer((NEWER,))))
        super()._post(host, send)

    def _check_transaction(self, encoded: bytes, height: int) -> None:
        if encoded in self.flood:
            return
        super()._check_transaction(encoded, height)
        waited = height - self._asked.get(encoded, height)
        if waited > BLOCKS_MAX and find_author(encoded) != FLOODER:
            raise ViolationError(f"fairness: {find_author(encoded)} waits for {waited} blocks")


def run(scenario: Scenario) -> Outcome:
    """Runs a scenario with a flood."""
    return Crowd(scenario).run()
