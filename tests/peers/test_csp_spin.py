"""SPIN explores what CSP# files compile to: as many states and steps as we and the oracle count.

So three programs that share no code agree: the oracle rewrites terms, SPIN runs the exported network.
"""

from __future__ import annotations

import pytest

from tests.csp.oracle_cases import CaseFile, case_files
from tests.peers.known import SECONDS_MAX
from tests.peers.test_spin import FLAGS, compare
from veristream.export.promela import to_promela
from veristream.languages.csp.lower.network import lower
from veristream.languages.csp.read.parse import read_specification
from veristream.source import read_source
from veristream_testing.peers import run_spin
from veristream_testing.states import explore

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("spin")]

EVERY = 2
STATES_MAX = 5_000
CASES = [pytest.param(case, id=case.name) for case in case_files()[::EVERY]]


@pytest.mark.parametrize("case", CASES)
def test_spin_counts_the_states_of_csp(case: CaseFile) -> None:
    spec = read_specification(read_source(case.path), {})
    for known in case.processes[:1]:
        network = lower(spec, known.process)
        run = run_spin(to_promela(network), timeout_s=SECONDS_MAX, cflags=FLAGS)
        compare(run, explore(network, STATES_MAX))
