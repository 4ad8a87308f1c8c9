"""Random models of CSP#: the compiler and the searches against the oracle, which rewrites terms.

Of each process, the Network is bisimilar to the oracle's graph, and each assertion has the oracle's verdict
and, with a minimum or maximum, its value.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, seed, settings

from tests.csp.test_verdicts import answers, questions
from veristream.languages.csp import syntax as csp

pytestmark = pytest.mark.long

_LOGGER = logging.getLogger(__name__)


def test_verdicts_are_those_of_the_oracle(share: int, models: int) -> None:
    compared: Counter[str] = Counter()

    @seed(share)
    @settings(max_examples=models, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(questions())
    def ask(spec: csp.Specification) -> None:
        found = answers(spec)
        compared["left out"] += found is None
        assume(found is not None)
        compared["models"] += 1
        for answer in found or ():
            assert answer.agree(), (answer, spec)
            compared["holds" if answer.holds else "violated"] += 1
            compared[type(answer.assertion.claim).__name__] += 1

    ask()
    _LOGGER.info("share %d: %s", share, dict(compared))
    assert compared["models"] >= models
    assert min(compared["holds"], compared["violated"]) >= models // 10
