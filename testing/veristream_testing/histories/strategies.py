"""Hypothesis strategies of histories; what they make depends on small seeds, which failures tell."""

from __future__ import annotations

from hypothesis import strategies
from hypothesis.strategies import SearchStrategy

from veristream_testing.histories.history import History
from veristream_testing.histories.noisy import noisy_history
from veristream_testing.histories.plants.catalogue import PLANTS
from veristream_testing.histories.simulated import clean_history, random_history

_SEEDS = strategies.integers(0, 2**32)


def clean_histories() -> SearchStrategy[History]:
    """Histories without anomalies."""
    return strategies.builds(clean_history, _SEEDS, size=strategies.integers(1, 10))


def planted_histories(most: int = 4, plant: str | None = None) -> SearchStrategy[History]:
    """Histories with some planted anomalies of any kind, also several of one, and always with `plant`."""
    others = strategies.lists(strategies.sampled_from(sorted(PLANTS)), max_size=most)
    plants = others if plant is None else others.map(lambda chosen: [plant, *chosen])
    return strategies.builds(
        random_history,
        _SEEDS,
        plants,
        size=strategies.integers(1, 10),
        redelivery=strategies.booleans(),
    )


def noisy_histories() -> SearchStrategy[History]:
    """Arbitrary histories, whose anomalies are not known."""
    return strategies.builds(noisy_history, _SEEDS, size=strategies.sampled_from((8, 20, 80)))
