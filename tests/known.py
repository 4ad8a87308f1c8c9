"""Our verdicts on a known model beside the expected ones."""

from __future__ import annotations

import veristream as vs
from veristream.expected import KnownModel, compare


def differences_of(known: KnownModel) -> list[tuple[str, tuple[str, ...]]]:
    """What differs from what is expected, by property."""
    names = [expectation.property for expectation in known.expectations]
    results = vs.check(known.path, names, constants=known.constants)
    outcomes = [
        compare(expectation, result)
        for expectation, result in zip(known.expectations, results, strict=True)
    ]
    return [(one.result.property, tuple(one.differences)) for one in outcomes if one.differences]
