"""Makes a model that shows a defect smaller: takes parts away as long as it still shows the defect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from veristream_testing.mutants.samples import Sample
from veristream_testing.mutants.tokens import groups_of, items_of, operands_of, tokenise, untokenise

ATTEMPTS_MAX = 400


def shrink(sample: Sample, shows: Callable[[Sample], bool]) -> Sample:
    """Returns a smaller model that still shows it, or the same if there is none."""
    if sample.queries is not None:
        queries = _shrink_text(sample.queries, lambda text: shows(replace(sample, queries=text)))
        sample = replace(sample, queries=queries)
    return replace(sample, text=_shrink_text(sample.text, lambda text: shows(replace(sample, text=text))))


def _shrink_text(text: str, shows: Callable[[str], bool]) -> str:
    attempts = 0
    smaller = True
    while smaller and attempts < ATTEMPTS_MAX:
        smaller = False
        tokens = tokenise(text)
        parts = {
            (part.start, part.end) for part in groups_of(tokens) + items_of(tokens) + operands_of(tokens)
        }
        parts |= {(at, at + 1) for at in range(len(tokens))}
        for start, end in sorted(parts, key=lambda part: part[0] - part[1]):
            attempts += 1
            less = untokenise(tokens[:start] + tokens[end:])
            if shows(less):
                text, smaller = less, True
                break
            if attempts >= ATTEMPTS_MAX:
                break
    return text
