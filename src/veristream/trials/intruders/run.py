"""Attacks configurations one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from veristream.brokers.kerberos.secured import Security
from veristream.expected import KnownModel
from veristream.trials.intruders.attacks import Attack, Observation
from veristream.trials.intruders.comparison import Attacked, compare
from veristream.trials.intruders.outcomes import Configuration

Observe = Callable[[Security, Sequence[Attack], Path], Mapping[Attack, Observation]]
"""Attacks a Kafka with this security, whose data is kept in the folder."""


def run(
    configurations: Sequence[Configuration],
    folder: Path,
    known: Mapping[str, KnownModel],
    observe: Observe,
    tell: Callable[[Configuration, str], None] = lambda configuration, what: None,
) -> Iterator[Attacked]:
    """Yields each configuration once it was attacked."""
    for one in configurations:
        tell(one, "attacking")
        found = observe(one.security, [each.attack for each in one.expected], folder / one.name)
        yield compare(one, found, known)
