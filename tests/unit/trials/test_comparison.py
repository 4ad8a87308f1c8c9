"""The verdict of a history beside that of a model: when they agree, and what explains it if not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import get_args

import pytest

from tests.unit.history.report.sample import AUDIT, judge
from tests.unit.trials.sample import ACKS_1, KNOWN, LOSES, NO_ORDER, ONCE, tried_acks_1, tried_acks_all
from veristream.history.properties import Property
from veristream.history.verdicts import Word as Found
from veristream.trials.comparison import Agreement, agree, compare
from veristream.trials.trial import Difference
from veristream.verdict import Word


def test_a_loss_that_the_model_has_agrees() -> None:
    one = tried_acks_1().comparisons[0]
    assert (one.model_verdict, one.judgement.word) == ("violated", Found.VIOLATED)
    assert (one.agreement, one.explanation) == (Agreement.AGREES, "")


def test_an_expected_difference_has_its_explanation() -> None:
    one = tried_acks_1().comparisons[1]
    assert (one.model_verdict, one.judgement.word) == ("violated", Found.HELD)
    assert one.agreement is Agreement.DIFFERS
    assert one.explanation == "no answer was lost, so that nothing was sent again"
    assert not one.is_unexplained


def test_a_loss_that_the_model_excludes_is_unexplained() -> None:
    (one,) = tried_acks_all().comparisons
    assert (one.model_verdict, one.judgement.word) == ("holds", Found.VIOLATED)
    assert (one.agreement, one.is_unexplained) == (Agreement.DIFFERS, True)


def test_what_a_recording_cannot_decide_is_neither() -> None:
    one = tried_acks_1().comparisons[2]
    assert (one.agreement, one.explanation, one.is_unexplained) == (Agreement.NOT_OBSERVABLE, "", False)


def test_an_explanation_is_of_one_verdict_only() -> None:
    """Why nothing came twice does not explain why it should have."""
    trial = replace(ACKS_1, differences={Property.DELIVERED: Difference(Found.VIOLATED, "not so")})
    kept = judge(Property.DELIVERED, Found.HELD, "20 acknowledged messages were received", 40)
    found = compare(trial, replace(AUDIT, judgements=(kept, ONCE, NO_ORDER)), KNOWN)
    assert [one.is_unexplained for one in found.comparisons] == [True, True, False]


def test_agreement_has_no_explanation_even_if_a_difference_was_expected() -> None:
    trial = replace(ACKS_1, differences={Property.DELIVERED: Difference(Found.VIOLATED, "as the model")})
    found = compare(trial, replace(AUDIT, judgements=(LOSES, ONCE, NO_ORDER)), KNOWN)
    assert (found.comparisons[0].agreement, found.comparisons[0].explanation) == (Agreement.AGREES, "")


@pytest.mark.parametrize(("model", "found"), list(itertools.product(get_args(Word), Found)))
def test_every_pair_of_verdicts(model: Word, found: Found) -> None:
    agreeing = {("holds", Found.HELD), ("violated", Found.VIOLATED)}
    expected = (
        Agreement.NOT_OBSERVABLE
        if found is Found.NOT_OBSERVABLE
        else Agreement.AGREES
        if (model, found) in agreeing
        else Agreement.DIFFERS
    )
    assert agree(model, found) is expected
