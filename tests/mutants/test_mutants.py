"""Models with mistakes in them: each gets a verdict, or a refusal that says where and why.

`VERISTREAM_MUTANTS` says how many mutants there are; `make mutants` has 100,000. The mutants that show a
defect are kept in `VERISTREAM_MUTANTS_DIR`, if it is set. To check mutant 7 again:
`python -m veristream_testing.mutants.trial 7 8 1`.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from veristream_testing.mutants.campaign import run_mutants, save

_LOGGER = logging.getLogger(__name__)

MUTANTS = int(os.environ.get("VERISTREAM_MUTANTS", "160"))
SHARES = 1 if MUTANTS < 1000 else 40
DEFECTS_SHOWN = 5


@pytest.mark.parametrize("share", range(SHARES))
def test_every_mutant_has_a_verdict_or_is_refused(share: int) -> None:
    numbers = range(share, MUTANTS, SHARES)
    campaign = run_mutants(numbers)
    _LOGGER.info("share %d: %s", share, dict(campaign.counts))
    for finding in campaign.findings:
        if folder := os.environ.get("VERISTREAM_MUTANTS_DIR"):
            save(finding, Path(folder))
    assert campaign.counts.total() == len(numbers)
    assert not campaign.findings, "\n\n".join(one.render() for one in campaign.findings[:DEFECTS_SHOWN])
    # If all were refused, this would not test searches.
    assert campaign.counts.total() - campaign.counts["refusal"] >= len(numbers) // 10
