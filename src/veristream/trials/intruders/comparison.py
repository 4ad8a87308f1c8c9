"""Compares what intruders achieved with what was expected, and with what the models say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from veristream.errors import ModelError
from veristream.expected import KnownModel
from veristream.trials.intruders.attacks import Attack, Observation, Outcome
from veristream.trials.intruders.outcomes import Configuration, Expected
from veristream.verdict import Word


class Agreement(StrEnum):
    """How an outcome stands to a model."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NO_COUNTERPART = "no counterpart"


@dataclass(frozen=True, slots=True)
class Cell:
    """One attack on one configuration; without a counterpart, `model` and `model_verdict` are None."""

    expected: Expected
    observation: Observation
    model: KnownModel | None
    model_verdict: Word | None

    @property
    def agreement(self) -> Agreement:
        """How the outcome stands to the model: an attack is possible there if its goal can be reached."""
        if self.model_verdict is None:
            return Agreement.NO_COUNTERPART
        succeeded = self.observation.outcome is Outcome.SUCCEEDED
        return Agreement.AGREES if succeeded == (self.model_verdict == "holds") else Agreement.DIFFERS

    @property
    def is_as_expected(self) -> bool:
        """Whether the outcome is the expected one, for the expected reason."""
        seen = self.observation
        return seen.outcome is self.expected.outcome and self.expected.evidence in seen.reason

    @property
    def is_unexplained(self) -> bool:
        """Whether it is unexpected, or differs from the model without a known reason."""
        is_surprise = self.agreement is Agreement.DIFFERS and not self.expected.why
        return is_surprise or not self.is_as_expected


@dataclass(frozen=True, slots=True)
class Attacked:
    """A configuration that was attacked."""

    configuration: Configuration
    cells: tuple[Cell, ...]


def compare(
    configuration: Configuration,
    observed: Mapping[Attack, Observation],
    known: Mapping[str, KnownModel],
) -> Attacked:
    """Returns a cell for each attack; raises ModelError if the models lack a counterpart."""
    return Attacked(
        configuration,
        tuple(_cell(one, observed[one.attack], known) for one in configuration.expected),
    )


def _cell(expected: Expected, observation: Observation, known: Mapping[str, KnownModel]) -> Cell:
    named = expected.counterpart
    if named is None:
        return Cell(expected, observation, None, None)
    model = known.get(named.model)
    if model is None:
        raise ModelError(f"no known model is called {named.model}", hint="leave out --models")
    for one in model.expectations:
        if one.property == named.property:
            return Cell(expected, observation, model, one.verdict)
    raise ModelError(
        f"{named.model} does not have the property {named.property!r}", hint="leave out --models"
    )


def cells(attacked: Iterable[Attacked]) -> Iterator[Cell]:
    """Yields the cells of all configurations."""
    return (cell for each in attacked for cell in each.cells)
