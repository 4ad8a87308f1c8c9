"""Real clusters under `kill -9`: what was acknowledged is there once, in order, whoever was killed when.

`VERISTREAM_KILL_ROUNDS` says how many rounds; every ten of them have a cluster and a seed of their own. The
seed also says whether the cluster prunes blocks that its snapshots cover, whether a supervisor restarts its
parties, whether it tolerates one fault or two, and which of its members change in some of the rounds.
With `--log-cli-level=INFO` every cluster says what it went through.

What these rounds cannot show: a kill takes nothing from the system's caches, so that a missing flush is not
noticed here. The disks of `tests/kabis/simulation` forget what was not flushed, and `test_planted_bugs.py`
leaves the flush out there: that is noticed.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.kabis.kills.files import check_files, count_pruned
from tests.kabis.kills.plan import Round, choose_shape, draw_rounds
from tests.kabis.kills.producing import PARTITIONS, TOPIC
from tests.kabis.kills.trial import Trial, opened

pytestmark = pytest.mark.long

_LOGGER = logging.getLogger(__name__)

ROUNDS = int(os.environ.get("VERISTREAM_KILL_ROUNDS", "10"))
ROUNDS_PER_CLUSTER = 10
SEEDS = range(-(-ROUNDS // ROUNDS_PER_CLUSTER))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(tmp_path: Path, seed: int) -> None:
    began_s, count = time.monotonic(), min(ROUNDS_PER_CLUSTER, ROUNDS - seed * ROUNDS_PER_CLUSTER)
    shape = choose_shape(seed)
    with opened(tmp_path, shape=shape) as trial:
        rounds: list[Round] = []
        for each in draw_rounds(Random(seed), lambda: trial.members, count, shape.wanted):
            _LOGGER.debug("seed %d, round %d: %s", seed, len(rounds), each)
            trial.run(each)
            rounds.append(each)
        trial.strike(trial.members.everybody)
        ledger = check_files(trial.cluster.folder)
        assert (count_pruned(trial.cluster.folder) > 0) is shape.prunes or count < ROUNDS_PER_CLUSTER
        trial.start(trial.members.parties)
        trial.wait_for_validators(ledger.height)
        trial.check_from_beginning([ledger.partition(TOPIC, each).next_index for each in range(PARTITIONS)])
    tell(trial, seed, rounds, time.monotonic() - began_s)


def tell(trial: Trial, seed: int, rounds: list[Round], seconds: float) -> None:
    """Says what a cluster went through."""
    told = trial.told().values()
    _LOGGER.info(
        "seed %d: %s, %d rounds (%s), %d changes of the members, killed %s; %d events pushed,"
        " %d acknowledged, %d delivered; %.0f s",
        seed,
        choose_shape(seed),
        len(rounds),
        ", ".join(f"{count} {kind.name}" for kind, count in Counter(each.kind for each in rounds).items()),
        trial.changes,
        ", ".join(f"{count} {role}" for role, count in trial.kills.items()),
        sum(len(notes.pushed) for notes in told),
        sum(len(notes.acknowledged) for notes in told),
        len(trial.delivered),
        seconds,
    )
