"""When a search that begins in the driver becomes large enough for workers to share it."""

from __future__ import annotations

from dataclasses import replace

from veristream.search.limits import Limits
from veristream.search.session import INTERRUPTED, Explored, Session


def limits_here(limits: Limits, start_states: int | None) -> Limits:
    """The limits of the search in the driver, which ends at `start_states` at the latest."""
    bounds = [one for one in (limits.states_max, start_states) if one is not None]
    return replace(limits, states_max=min(bounds, default=None))


def is_large(session: Session[Explored], limits: Limits, start_states: int | None) -> bool:
    """Whether the search in the driver stopped because of its size, not at a limit that the user set."""
    if session.stopped in ("", INTERRUPTED):
        return False
    if session.stopped == session.out_of_memory:
        return True
    states = session.exploration.counts.states
    within = limits.states_max is None or states < limits.states_max
    return start_states is not None and start_states <= states and within
