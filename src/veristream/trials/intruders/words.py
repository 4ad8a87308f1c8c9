"""The wording of attacks, shared by all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from veristream.report.words import show_constants, tell_count
from veristream.trials.intruders.comparison import Agreement, Attacked, Cell, cells


def show_model_verdict(cell: Cell) -> str:
    """Says whether the attack is possible in the model."""
    match cell.model_verdict:
        case None:
            return "-"
        case "holds":
            return "possible"
        case "violated":
            return "impossible"
        case _:
            return cell.model_verdict


def show_file(cell: Cell) -> str:
    """Returns the model's file; empty if there is none."""
    return f"{cell.model.path.parent.name}/{cell.model.path.name}" if cell.model else ""


def show_counterpart(cell: Cell) -> str:
    """Returns the model with its constants, and its property, as `veristream check` takes them."""
    if cell.model is None or cell.expected.counterpart is None:
        return "no model"
    constants = show_constants(cell.model)
    return f"{cell.expected.counterpart.property} of {show_file(cell)}" + (
        f" with {constants}" if constants else ""
    )


def tell_why(cell: Cell) -> str:
    """Gives the evidence, what was expected if it is something else, and why the model says otherwise."""
    parts = [cell.observation.reason]
    if not cell.is_as_expected:
        parts.append(f"expected: {cell.expected.outcome}, {cell.expected.evidence}")
    if cell.expected.why:
        parts.append(cell.expected.why)
    elif cell.agreement is Agreement.DIFFERS:
        parts.append("nothing explains the difference")
    return "; ".join(parts)


def tell_agreement(attacked: Sequence[Attacked]) -> str:
    """Counts configurations and outcomes."""
    found = list(cells(attacked))
    counts = Counter(one.agreement for one in found)
    unexpected = sum(not one.is_as_expected for one in found)
    parts = [f"{counts[Agreement.AGREES]} of {tell_count(len(found), 'outcome')} agree with the models"]
    if counts[Agreement.DIFFERS]:
        parts.append(
            f"{counts[Agreement.DIFFERS]} {'differs' if counts[Agreement.DIFFERS] == 1 else 'differ'}"
        )
    if counts[Agreement.NO_COUNTERPART]:
        verb = "has" if counts[Agreement.NO_COUNTERPART] == 1 else "have"
        parts.append(f"{counts[Agreement.NO_COUNTERPART]} {verb} no counterpart")
    parts.append(f"{unexpected} unexpected" if unexpected else "all as expected")
    return f"{tell_count(len(attacked), 'configuration')}: {', '.join(parts)}"
