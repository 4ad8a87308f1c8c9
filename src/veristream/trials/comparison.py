"""Compares what a recorded history says with what the models say of the same settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from veristream.expected import KnownModel
from veristream.history.audited import Audit
from veristream.history.verdicts import Judgement
from veristream.history.verdicts import Word as Found
from veristream.trials.trial import Pair, Trial
from veristream.verdict import Word


class Agreement(StrEnum):
    """How the verdict on a history stands to that on a model."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pair of a trial: the model with its verdict, and what the history says.

    `explanation` says why they differ; it is empty if they do not, or if nobody knows why.
    """

    pair: Pair
    model: KnownModel
    model_verdict: Word
    judgement: Judgement
    agreement: Agreement
    explanation: str = ""

    @property
    def is_unexplained(self) -> bool:
        """Whether nobody knows why they differ."""
        return self.agreement is Agreement.DIFFERS and not self.explanation


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that was run: the audit of its history, and a comparison for each of its pairs."""

    trial: Trial
    audit: Audit
    comparisons: tuple[Comparison, ...]


def compare(trial: Trial, audit: Audit, known: Mapping[str, KnownModel]) -> Tried:
    """Returns the comparison of each pair; the audit has a judgement for each of their properties."""
    found = {one.property: one for one in audit.judgements}
    return Tried(
        trial,
        audit,
        tuple(_compare(trial, pair, known[pair.model], found[pair.property]) for pair in trial.pairs),
    )


def _compare(trial: Trial, pair: Pair, model: KnownModel, judgement: Judgement) -> Comparison:
    verdict = verdict_of(model, pair.model_property)
    agreement = agree(verdict, judgement.word)
    expected = trial.differences.get(pair.property)
    is_expected = (
        expected is not None and agreement is not Agreement.AGREES and expected.verdict is judgement.word
    )
    explanation = expected.why if expected is not None and is_expected else ""
    return Comparison(pair, model, verdict, judgement, agreement, explanation)


def verdict_of(model: KnownModel, name: str) -> Word:
    """Returns the known verdict of a model's property."""
    (verdict,) = {one.verdict for one in model.expectations if one.property == name}
    return verdict


def agree(model: Word, found: Found) -> Agreement:
    """Returns how a verdict on a history stands to that on a model."""
    match found:
        case Found.NOT_OBSERVABLE:
            return Agreement.NOT_OBSERVABLE
        case Found.HELD:
            return Agreement.AGREES if model == "holds" else Agreement.DIFFERS
        case Found.VIOLATED:
            return Agreement.AGREES if model == "violated" else Agreement.DIFFERS
        case _:
            assert_never(found)
