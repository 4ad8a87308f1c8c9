"""Clean histories have no anomaly, and planted ones exactly those that the plants say."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly, Judgement, Word
from veristream.history.witnesses import KINDS, KINDS_OF, WITNESSES
from veristream_testing.histories.history import History
from veristream_testing.histories.plants.catalogue import IMPLIED, PLANTS, kind_of
from veristream_testing.histories.simulated import clean_history, random_history
from veristream_testing.histories.strategies import planted_histories


def assert_exactly(history: History) -> dict[Property, Judgement]:
    """Asserts that the plain checker finds what is in a history, and nothing else."""
    assert history.anomalies is not None
    judgements = dict(zip(Property, judge(history.manifest, history.events), strict=True))
    for asked, judgement in judgements.items():
        there = sorted(each for each in history.anomalies if each.kind in KINDS_OF[asked])
        assert judgement.counts == Counter(each.kind for each in there)
        shown = [witness.anomaly for witness in judgement.witnesses]
        assert shown == [
            each for kind in sorted(KINDS_OF[asked]) for each in _of_kind(there, kind)[:WITNESSES]
        ]
        assert (judgement.word is Word.VIOLATED) == bool(there)
    return judgements


def _of_kind(anomalies: list[Anomaly], kind: str) -> list[Anomaly]:
    return [each for each in anomalies if each.kind == kind]


def test_clean_histories_have_no_anomaly() -> None:
    words: Counter[tuple[Property, Word]] = Counter()
    notes: Counter[str] = Counter()
    for seed in range(60):
        history = clean_history(seed, size=8)
        assert history.anomalies == frozenset()
        for asked, judgement in assert_exactly(history).items():
            words[asked, judgement.word] += 1
            notes.update(judgement.notes)
    # Every property was really decided.
    assert all(words[asked, Word.HELD] >= 15 for asked in Property)
    assert notes["G0"] > 0


def test_messages_that_come_again_are_duplicates_and_nothing_else() -> None:
    found = 0
    for seed in range(30):
        history = clean_history(seed, size=8, redelivery=True)
        assert {each.kind for each in history.anomalies or ()} <= {"duplicate"}
        found += len(history.anomalies or ())
        assert_exactly(history)
    assert found > 30


def test_every_kind_has_a_plant() -> None:
    assert {kind_of(name) for name in PLANTS} == set(KINDS)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_is_found_and_nothing_else(plant: str) -> None:
    kind = kind_of(plant)
    for seed in range(5):
        history = random_history(seed, [plant], size=4)
        kinds = Counter(each.kind for each in history.anomalies or ())
        assert kinds == dict.fromkeys({kind, *IMPLIED.get(kind, ())}, 1)
        judgements = assert_exactly(history)
        # The events of a witness are those of the history.
        for judgement in judgements.values():
            for witness in judgement.witnesses:
                assert set(witness.events) <= set(history.events)
                assert witness.told


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(planted_histories())
def test_several_plants_are_found_and_nothing_else(history: History) -> None:
    assert_exactly(history)


def test_a_seed_gives_one_history() -> None:
    plants = ["G1c", "overrun", "overrun"]
    one = random_history(3, plants)
    assert one == random_history(3, plants)
    assert one != random_history(4, plants)
    assert Counter(each.kind for each in one.anomalies or ()) == {"G1c": 1, "overrun": 2}
