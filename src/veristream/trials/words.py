"""The wording of trials, shared by all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from veristream.report.words import show_constants, tell_count
from veristream.trials.comparison import Agreement, Comparison, Tried


def show_model(one: Comparison) -> str:
    """Returns the model with its constants, and its property, as `veristream check` takes them."""
    constants = show_constants(one.model)
    file = f"{one.model.path.parent.name}/{one.model.path.name}"
    return f"{one.pair.model_property} of {file}" + (f" with {constants}" if constants else "")


def tell_why(one: Comparison) -> str:
    """Says what the broker did, and why the model says otherwise if it does."""
    if one.is_unexplained:
        return f"{one.judgement.reason}; nothing explains the difference"
    return f"{one.judgement.reason}: {one.explanation}" if one.explanation else one.judgement.reason


def tell_agreement(tried: Sequence[Tried]) -> str:
    """Counts configurations and verdicts."""
    found = list(comparisons(tried))
    counts = Counter(one.agreement for one in found)
    unexplained = sum(one.is_unexplained for one in found)
    parts = [f"{counts[Agreement.AGREES]} of {tell_count(len(found), 'verdict')} agree"]
    if counts[Agreement.DIFFERS]:
        explained = f"({unexplained} unexplained)" if unexplained else "(explained)"
        verb = "differs" if counts[Agreement.DIFFERS] == 1 else "differ"
        parts.append(f"{counts[Agreement.DIFFERS]} {verb} {explained}")
    if counts[Agreement.NOT_OBSERVABLE]:
        parts.append(f"{counts[Agreement.NOT_OBSERVABLE]} not observable")
    return f"{tell_count(len(tried), 'configuration')}: {', '.join(parts)}"


def comparisons(tried: Iterable[Tried]) -> Iterable[Comparison]:
    """Yields the comparisons of all trials."""
    return (one for each in tried for one in each.comparisons)


def by_broker(tried: Iterable[Tried]) -> dict[str, list[Tried]]:
    """Returns the trials of each broker, in their order."""
    found: dict[str, list[Tried]] = {}
    for each in tried:
        found.setdefault(each.trial.broker, []).append(each)
    return found
