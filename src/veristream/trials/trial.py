"""What a trial is: a configuration of a real broker, the faults that matter to it, and what is compared.

A trial says nothing of verdicts. That of the model is in the `expected.toml` beside it, which `veristream
reproduce` checks; that of the broker comes from the history that is recorded when the trial runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from veristream.history.properties import Property
from veristream.history.verdicts import Word


@dataclass(frozen=True, slots=True)
class Pair:
    """One property, as it is checked on the history, and as a known model has it."""

    property: Property
    model: str
    model_property: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the broker's verdict may be this one although the model's is the other."""

    verdict: Word
    why: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration of a broker: `settings` of the broker and its clients, and what happens to them.

    `about` is one sentence. `differences` explain verdicts that are expected to differ from the model's; a
    difference that it does not have is a finding.
    """

    broker: str
    name: str
    about: str
    settings: Mapping[str, str]
    workload: str
    faults: str
    pairs: tuple[Pair, ...]
    differences: Mapping[Property, Difference] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The broker and the name, which no other trial has."""
        return f"{self.broker} {self.name}"
