"""What the catalogue says of one property.

The verdicts on models are not written here: an entry names known models and their properties, and the
`expected.toml` beside each model has the verdict, which `veristream reproduce` checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from veristream.expected import KnownModel
from veristream.verdict import Word


@dataclass(frozen=True, slots=True)
class Promise:
    """Who promises the property, and under which settings."""

    system: str
    when: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A property that known models of one system have.

    With `bad`, the model's property describes what must not happen, such as a state that an intruder wants
    to reach: where it holds, the property of the catalogue is refuted.
    """

    system: str
    property: str
    models: tuple[str, ...]
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A property: `anomalies` maps each kind that refutes it on a history to its meaning.

    An entry without anomalies is decided on models only; `instead` then says why, and what to look at.
    """

    name: str
    meaning: str
    promises: tuple[Promise, ...]
    evidence: tuple[Evidence, ...]
    anomalies: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    instead: str = ""

    @property
    def on_histories(self) -> bool:
        """Whether `veristream audit` decides it."""
        return bool(self.anomalies)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one model says of a property of the catalogue."""

    system: str
    model: KnownModel
    property: str
    verdict: Word
    proves: bool
    source: str
