"""Properties of transactions by the fast checker: exact anomalies, their events and their counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.history.job.recorded import judge_one
from veristream.errors import EnvironmentFailure
from veristream.history.checks.transactions.cycles import Edges, judge_edges
from veristream.history.events import Event
from veristream.history.manifest import Process
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly, Judgement, Word
from veristream_testing.histories.history import History
from veristream_testing.histories.notation import LOG, history


def told(judgement: Judgement) -> list[Anomaly]:
    return [witness.anomaly for witness in judgement.witnesses]


def shown(judgement: Judgement) -> list[str]:
    """Returns the events of the first witness, as process and index."""
    return [f"{'abcdef'[event.process]}{event.index}" for event in judgement.witnesses[0].events]


def apart(of: History) -> History:
    """Puts every process on a host of its own."""
    hosts = tuple(Process(each.name, each.name) for each in of.manifest.processes)
    return replace(of, manifest=replace(of.manifest, processes=hosts))


# Aborted is never read.


def test_aborted_read(tmp_path: Path) -> None:
    of = history("a[1 a>1@0 a>2/1@0 ax1 b<a1@0 b<a2/1@0 c<a1@0")
    judgement = judge_one(Property.ABORTED, of, tmp_path / "h")
    assert judgement.counts == {"aborted read": 3}
    assert told(judgement) == [
        Anomaly("aborted read", stream=0, partition=0, process=1, index=0),
        Anomaly("aborted read", stream=0, partition=0, process=2, index=0),
        Anomaly("aborted read", stream=0, partition=1, process=1, index=1),
    ]
    assert shown(judgement) == ["a2", "a7", "b0"]


def test_precommitted_read(tmp_path: Path) -> None:
    of = history("a[1 a>1@0 a>2@1 b<a1@0 a]1 b<a2@1")
    judgement = judge_one(Property.ABORTED, of, tmp_path / "h")
    assert judgement.counts == {"precommitted read": 1}
    assert told(judgement) == [Anomaly("precommitted read", stream=0, partition=0, process=1, index=0)]
    assert shown(judgement) == ["a2", "b0", "a6"]
    assert judgement.operations == 4 + 2 + 2


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("a[1 a>1@0 a]1 b<a1@0", 1),
        ("a[1 a>1@0 ax1 b<?@0", 1),
        ("a[1 a>1@0 ax1 bE0-1", 1),
        ("a[1 a>1@0! ax1 b<a1@0", 1),  # not possible, so `nothing from nowhere` tells it
        ("a[1 a>1@0 ax1 a>1@1 b<a1@1", 1),  # sent again outside
        ("a[1 a>1@0 ax1 a[2 a>1@1 a]2 b<a1@1", 1),
        ("a[1 a>1/-1? a]1 b<a1@0 b<a1/1@0", 2),  # in both partitions
    ],
)
def test_nothing_read_too_early(tmp_path: Path, line: str, asked: int) -> None:
    judgement = judge_one(Property.ABORTED, history(line), tmp_path / "h")
    messages = "messages of transactions were" if asked > 1 else "message of a transaction was"
    expected = f"{asked} {messages} never read too early or in vain"
    assert (judgement.word, judgement.reason) == (Word.HELD, expected)


def test_what_was_sent_to_an_unknown_partition_may_be_aborted(tmp_path: Path) -> None:
    of = history("a[1 a>1/-1? ax1 b<a1/2@0 b<a1/5@0")
    judgement = judge_one(Property.ABORTED, of, tmp_path / "h")
    assert [(each.partition, each.index) for each in told(judgement)] == [(2, 0), (5, 1)]


def test_clocks_that_cannot_be_compared(tmp_path: Path) -> None:
    of = apart(history("a[1 a>1@0 b<a1@0 a]1"))
    judgement = judge_one(Property.ABORTED, of, tmp_path / "h")
    assert judgement.word is Word.NOT_OBSERVABLE
    assert judgement.reason.startswith("clocks of different processes had to be compared")
    without_commit = apart(history("a[1 a>1@0 b<a1@0"))
    assert judge_one(Property.ABORTED, without_commit, tmp_path / "i").counts == {"precommitted read": 1}


def test_a_clock_that_jumped_is_not_compared(tmp_path: Path) -> None:
    of = history("a[1 a>1@0 b<a1@0 a]1 bS0*5")
    judgement = judge_one(Property.ABORTED, of, tmp_path / "h")
    assert judgement.word is Word.NOT_OBSERVABLE
    assert "a clock jumped" in judgement.reason


# Transactions are seen whole.

TORN = "a[1 a>1@0 a>2/1@0 a]1 b<a1@0 bE0-1 bE0-1/1 c<a2/1@0 c<a1@0 cE0-1 cE0-1/1"


def test_torn_across_partitions(tmp_path: Path) -> None:
    judgement = judge_one(Property.WHOLE, history(TORN), tmp_path / "h")
    assert judgement.counts == {"torn transaction": 1}
    assert told(judgement) == [Anomaly("torn transaction", process=1, producer=0, transaction=1)]
    assert shown(judgement) == ["a3", "a5", "a7", "b0", "b4"]
    assert judgement.operations == 2 + 4 + 2 + 3 + 8


def test_torn_many_times(tmp_path: Path) -> None:
    sends = " ".join(f"a[{n} a>{2 * n}@{2 * n} a>{2 * n + 1}@{2 * n + 1} a]{n}" for n in range(9))
    receipts = " ".join(f"b<a{number}@{number}" for number in range(18) if number % 3)
    judgement = judge_one(Property.WHOLE, history(f"{sends} {receipts} bE0-18"), tmp_path / "h")
    assert judgement.counts == {"torn transaction": 6}
    assert [each.transaction for each in told(judgement)] == [0, 1, 3]


@pytest.mark.parametrize(
    ("line", "word", "reason"),
    [
        (TORN.replace("b<a1@0 ", ""), Word.HELD, "2 readings of transactions were whole"),
        (TORN.replace("bE0-1/1 ", ""), Word.HELD, "1 reading of a transaction was whole"),
        (TORN.replace("a]1", "ax1"), Word.NOT_OBSERVABLE, "no reader read two messages"),
        (TORN.replace("a]1", "a]1?"), Word.NOT_OBSERVABLE, "no reader read two messages"),
        (TORN.replace("a>2/1@0", "a>2/1@0?"), Word.NOT_OBSERVABLE, "no reader read two messages"),
        (TORN.replace("bE0-1 ", "bE0-1! "), Word.HELD, "1 reading of a transaction was whole"),
    ],
)
def test_not_torn(tmp_path: Path, line: str, word: Word, reason: str) -> None:
    judgement = judge_one(Property.WHOLE, history(line), tmp_path / "h")
    assert judgement.word is word
    assert judgement.reason.startswith(reason)


def test_torn_is_not_looked_for_in_what_is_not_complete(tmp_path: Path) -> None:
    judgement = judge_one(Property.WHOLE, history(TORN, complete=False), tmp_path / "h")
    assert (judgement.word, judgement.counts) == (Word.NOT_OBSERVABLE, {})
    assert "did not come to its end" in judgement.reason


CYCLE = "a[1 b[1 a>1@0 b>1/1@0 a<b1/1@0 b<a1@0 a]1 b]1"


def test_transactions_that_read_of_each_other(tmp_path: Path) -> None:
    judgement = judge_one(Property.WHOLE, history(CYCLE), tmp_path / "h")
    assert judgement.counts == {"G1c": 1}
    assert told(judgement) == [Anomaly("G1c", process=0, transaction=1)]
    assert shown(judgement) == ["a4", "b4", "a6", "b6"]


def test_a_cycle_of_reading_and_writing(tmp_path: Path) -> None:
    of = history("a[1 b[1 c[1 a>1@0 b>1@1 c>1/1@0 c<b1@1 a<c1/1@0 a]1 b]1 c]1")
    judgement = judge_one(Property.WHOLE, of, tmp_path / "h")
    assert told(judgement) == [Anomaly("G1c", process=0, transaction=1)]
    assert shown(judgement) == ["a3", "b3", "c4", "a4", "a6", "b5", "c6"]


def test_cycles_of_writing_alone_are_noted(tmp_path: Path) -> None:
    of = history("a[1 b[1 a>1@0 b>1@1 a>2@2 a]1 b]1 cE0-3")
    judgement = judge_one(Property.WHOLE, of, tmp_path / "h")
    assert (judgement.word, judgement.notes) == (Word.HELD, {"G0": 1})


@pytest.mark.parametrize(
    "line",
    [
        CYCLE.replace("b[1 ", "").replace("b>1", "b[1 b>1").replace("b<a1@0 a]1", "a]1 b]1 b<a1@0")[:-4],
        CYCLE.replace("a]1", "ax1"),
        "a[1 a>1@0 a<a1@0 a]1",  # of its own
    ],
)
def test_no_cycle(tmp_path: Path, line: str) -> None:
    judgement = judge_one(Property.WHOLE, history(line), tmp_path / "h")
    assert (judgement.counts, judgement.notes) == ({}, {})


def edges(*pairs: tuple[int, int, bool]) -> Edges:
    source, target, reads = (np.array(each) for each in zip(*pairs, strict=True))
    return Edges(source.astype(np.int64), target.astype(np.int64), reads)


def test_components_of_edges_from_several_buckets() -> None:
    one = edges((3, 4, False), (4, 5, False), (7, 8, True), (8, 7, False), (20, 21, False))
    two = edges((5, 3, True), (4, 3, False), (7, 8, False), (21, 20, False), (1, 3, True))
    found = judge_edges([one, two])
    assert (found.reading, found.writing) == (2, 1)
    assert found.first == (
        (3, ((5, 3, True), (3, 4, False), (4, 5, False))),
        (7, ((7, 8, True), (8, 7, False))),
    )
    assert judge_edges([two, one]) == found


def test_a_long_cycle() -> None:
    """A recursion would not survive it."""
    count = 200_000
    nodes = np.arange(count, dtype=np.int64)
    found = judge_edges([Edges(nodes, np.roll(nodes, -1), nodes == 9)])
    assert (found.reading, found.writing) == (1, 0)
    ((smallest, steps),) = found.first
    assert (smallest, len(steps), steps[0]) == (0, count, (9, 10, True))


def test_a_graph_above_the_limit_is_told() -> None:
    with pytest.raises(EnvironmentFailure, match="has 3 edges, and one task looks at 2 at most"):
        judge_edges([edges((0, 1, True), (1, 2, True)), edges((2, 0, True))], edges_max=2)


# A fenced producer never commits.


def test_zombie_commit(tmp_path: Path) -> None:
    of = history("ao1 a[1 bo2 a]1 b[1 b]1")
    judgement = judge_one(Property.FENCED, of, tmp_path / "h")
    assert judgement.counts == {"zombie commit": 1}
    assert told(judgement) == [Anomaly("zombie commit", group=0, process=0, index=5)]
    assert shown(judgement) == ["b1", "a4", "a5"]
    assert judgement.operations == 12


@pytest.mark.parametrize(
    "line",
    [
        "ao1 a[1 a]1 bo2",
        "ao1 a[1 bo2! a]1",  # it failed
        "ao1 a[1 bo2 a]1! b[1 b]1",  # the commit failed
        "ao1 a[1 bo1 a]1",
        "ao1 a[1 a~]1 bo2 a$]1",  # the call began before
        "ao1 a[1 bo2 ax1",
    ],
)
def test_no_zombie(tmp_path: Path, line: str) -> None:
    words = [word.replace("a~]1", "a]1~").replace("a$]1", "a]1$") for word in line.split()]
    of = history(" ".join(words))
    judgement = judge_one(Property.FENCED, of, tmp_path / "h")
    expected = Word.NOT_OBSERVABLE if "bo2!" in line else Word.HELD
    assert (judgement.word, judgement.counts) == (expected, {})


def test_zombies_are_not_compared_across_hosts(tmp_path: Path) -> None:
    judgement = judge_one(Property.FENCED, apart(history("ao1 a[1 bo2 a]1")), tmp_path / "h")
    assert judgement.word is Word.NOT_OBSERVABLE
    assert "clocks of different processes" in judgement.reason


def test_the_first_zombies_of_many(tmp_path: Path) -> None:
    commits = " ".join(f"a[{number} a]{number}" for number in range(50))
    judgement = judge_one(Property.FENCED, history(f"ao1 bo2 {commits}"), tmp_path / "h")
    assert judgement.counts == {"zombie commit": 50}
    assert [each.index for each in told(judgement)] == [5, 9, 13]


def test_queues_have_no_transactions(tmp_path: Path) -> None:
    of = history("a[1 a>1 ax1 b<a1", replace(LOG, offsets=False))
    judgement = judge_one(Property.ABORTED, of, tmp_path / "h")
    assert (judgement.word, judgement.operations) == (Word.NOT_OBSERVABLE, 2)


def test_events_show_all_their_fields(tmp_path: Path) -> None:
    of = history("ao7 a[1 a>1@0#99 ax1 b<a1@0#99")
    events: tuple[Event, ...] = judge_one(Property.ABORTED, of, tmp_path / "h").witnesses[0].events
    assert [(each.digest, each.epoch) for each in events] == [(99, 7), (0, 7), (99, -1)]
