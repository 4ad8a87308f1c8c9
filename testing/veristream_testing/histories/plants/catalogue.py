"""Every plant by its name: the kind of anomaly, and what is special if a kind has several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from veristream_testing.histories.broker import Client, World
from veristream_testing.histories.plants import groups, logs, queues, transactions

Plant = Callable[[World], Client]

PLANTS: Final[Mapping[str, Plant]] = {
    "lost write": logs.lost_write,
    "lost write, queue": queues.lost_write,
    "unprocessed": groups.unprocessed,
    "duplicate": logs.duplicate,
    "duplicate, queue": queues.duplicate,
    "nonmonotonic send": logs.nonmonotonic_send,
    "int-nonmonotonic send": logs.int_nonmonotonic_send,
    "nonmonotonic poll": logs.nonmonotonic_poll,
    "nonmonotonic poll, queue": queues.nonmonotonic_poll,
    "int-nonmonotonic poll": logs.int_nonmonotonic_poll,
    "int-nonmonotonic poll, queue": queues.int_nonmonotonic_poll,
    "skipped poll": logs.skipped_poll,
    "int-skipped poll": logs.int_skipped_poll,
    "inconsistent offset": logs.inconsistent_offset,
    "unexpected": logs.unexpected,
    "unexpected, unnamed": logs.unexpected_unnamed,
    "unexpected, queue": queues.unexpected,
    "altered": logs.altered,
    "altered, queue": queues.altered,
    "leaked": logs.leaked,
    "leaked, queue": queues.leaked,
    "aborted read": transactions.aborted_read,
    "precommitted read": transactions.precommitted_read,
    "torn transaction": transactions.torn_transaction,
    "G1c": transactions.cycle,
    "zombie commit": transactions.zombie_commit,
    "hanging transaction": transactions.hanging_transaction,
    "overlapping assignment": groups.overlapping_assignment,
    "lost commit": groups.lost_commit,
    "backward commit": groups.backward_commit,
    "overrun": queues.overrun,
    "too many attempts": queues.too_many_attempts,
    "zombie delivery": queues.zombie_delivery,
}
"""Plants for histories of the simulated broker; all of them say in `World.anomalies` what must be found."""


def kind_of(plant: str) -> str:
    """Returns the kind of anomaly that a plant brings."""
    return plant.partition(",")[0]


IMPLIED: Final[Mapping[str, frozenset[str]]] = {"zombie delivery": frozenset({"duplicate"})}
"""Kinds of anomalies that the plant of another kind brings with it."""
