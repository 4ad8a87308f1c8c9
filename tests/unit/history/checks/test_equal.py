"""The fast checker and the plain one say the same, to the last witness."""

from dataclasses import replace
from random import Random

import pytest

from tests.unit.history.checks.checked import ASKED, check
from tests.unit.history.oracle.test_kinds import CASES, Case
from veristream.history.checks.logs import offsets, polls
from veristream.history.checks.table import codes, numbering, places
from veristream.history.events import Event, Operation
from veristream.history.oracle.judge import judge
from veristream.history.verdicts import Judgement, Word
from veristream_testing.histories.history import History
from veristream_testing.histories.noisy import noisy_history
from veristream_testing.histories.notation import history
from veristream_testing.histories.plants.catalogue import PLANTS
from veristream_testing.histories.simulated import clean_history, random_history

_NAMED = (Operation.SEND, Operation.RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT)
_LIMITS = (
    (numbering, "_PAIRS_MAX"),
    (numbering, "_SPAN_PER_ROW"),
    (numbering, "_SPAN_SPARE"),
    (offsets, "_SPAN_PER_ROW"),
    (offsets, "_SPAN_SPARE"),
    (polls, "_READERS_MAX"),
    (places, "_KEYS_MAX"),
    (codes, "_SPARE"),
)


def assert_equal(of: History, buckets: int = 1, seed: int | None = 0) -> tuple[Judgement, ...]:
    """Asserts that both say the same of a history, in this many buckets."""
    found = check(of.manifest, of.events, ASKED, buckets, seed)
    assert found == judge(of.manifest, of.events, ASKED)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.anomaly.kind)
def test_each_kind(case: Case) -> None:
    valid, wrong = history(case.valid, case.stream), history(case.wrong, case.stream)
    judgement = assert_equal(valid)[ASKED.index(case.asked)]
    assert (judgement.word, judgement.reason) == (Word.HELD, case.held)
    judgement = assert_equal(wrong)[ASKED.index(case.asked)]
    assert (judgement.word, judgement.reason) == (Word.VIOLATED, case.violated)
    assert [witness.anomaly for witness in judgement.witnesses] == [case.anomaly]


@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_noise(buckets: int) -> None:
    for seed in range(50):
        assert_equal(noisy_history(1000 * buckets + seed), buckets, None if seed % 3 == 0 else seed)


def test_simulated_brokers() -> None:
    for seed in range(30):
        assert_equal(clean_history(seed, 5, redelivery=seed % 2 == 0), 1 + seed % 4, seed)


@pytest.mark.parametrize("plant", PLANTS)
def test_plants(plant: str) -> None:
    assert_equal(random_history(7, [plant], size=4), 3)


@pytest.mark.long
@pytest.mark.parametrize("buckets", [1, 2, 3, 7])
def test_much_noise(buckets: int) -> None:
    for seed in range(2000):
        assert_equal(noisy_history(100_000 * buckets + seed), buckets, None if seed % 3 == 0 else seed)


@pytest.mark.long
def test_many_plants() -> None:
    for seed in range(500):
        plants = Random(seed).choices(list(PLANTS), k=4)
        assert_equal(random_history(seed, plants), 1 + seed % 8, None if seed % 3 == 0 else seed)


def test_noise_with_wide_numbers_and_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100):
        random = Random(seed)
        with monkeypatch.context() as patch:
            for module, name in _LIMITS:
                if random.random() < 0.4:
                    patch.setattr(module, name, random.randrange(2))
            if random.random() < 0.4:
                patch.setattr(polls, "_OFFSET_BITS", 5)
            assert_equal(_widened(noisy_history(seed), random), random.choice((1, 3)), seed)


def _widened(of: History, random: Random) -> History:
    """Returns the history with larger numbers, producers and offsets in the same order."""
    number, producer = random.choice((1, 10**6, 2**60)), random.choice((1, 2**20, 2**28))
    offset = random.choice((1, 1000, 2**59))

    def widen(event: Event) -> Event:
        if event.operation in _NAMED and event.producer >= 0:
            event = replace(event, number=event.number * number, producer=event.producer * producer)
        if event.operation is Operation.READ_TO_END and event.number > 0:
            event = replace(event, number=event.number * offset)
        return replace(event, offset=event.offset * offset) if event.offset > 0 else event

    return replace(of, events=tuple(map(widen, of.events)))
