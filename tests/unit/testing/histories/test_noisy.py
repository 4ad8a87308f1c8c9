"""Noise keeps the rules of recordings, and shows every kind of anomaly and every word of each property."""

from collections import Counter
from dataclasses import fields

import numpy as np

from veristream.history.events import Event, Operation
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.store.rules import Place, check_rows
from veristream.history.verdicts import Word
from veristream.history.witnesses import KINDS
from veristream_testing.histories.history import History
from veristream_testing.histories.noisy import noisy_history
from veristream_testing.histories.simulated import random_history


def columns_of(history: History) -> dict[str, np.ndarray]:
    """The events as columns, without their errors."""
    names = [field.name for field in fields(Event) if field.name != "error"]
    return {
        name: np.array([getattr(event, name) for event in history.events], dtype=np.int64) for name in names
    }


def test_histories_keep_the_rules_of_the_store() -> None:
    for seed in range(100):
        noise = noisy_history(seed)
        check_rows(columns_of(noise), noise.manifest, Place("noise"))
    for seed in range(10):
        simulated = random_history(seed, ["zombie delivery", "unexpected"])
        check_rows(columns_of(simulated), simulated.manifest, Place("simulated"))


def test_a_call_has_one_operation_in_one_place() -> None:
    for seed in range(100):
        calls: dict[tuple[int, int], set[tuple[Operation, int, int]]] = {}
        for event in noisy_history(seed).events:
            place = (event.operation, event.stream, event.partition)
            calls.setdefault((event.process, event.call), set()).add(place)
        assert all(len(places) == 1 for places in calls.values())


def test_noise_shows_everything() -> None:
    kinds: Counter[str] = Counter()
    words: Counter[tuple[str, Word]] = Counter()
    notes: Counter[str] = Counter()
    jumped = incomplete = 0
    for seed in range(800):
        noise = noisy_history(seed)
        incomplete += not noise.manifest.complete
        last: dict[int, int] = {}
        for event in noise.events:
            if event.time_ns < last.get(event.process, 0):
                jumped += 1
                break
            last[event.process] = event.time_ns
        for judgement in judge(noise.manifest, noise.events):
            kinds.update(judgement.counts)
            notes.update(judgement.notes)
            words[judgement.property, judgement.word] += 1
    assert set(kinds) == set(KINDS)
    assert notes["G0"] > 0
    assert set(words) == {(asked.value, word) for asked in Property for word in Word}
    assert min(jumped, incomplete) > 50


def test_a_seed_gives_one_history() -> None:
    assert noisy_history(7) == noisy_history(7)
    assert noisy_history(7) != noisy_history(8)
