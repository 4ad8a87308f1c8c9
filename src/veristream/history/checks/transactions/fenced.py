"""`a fenced producer never commits`: all of it from the events without a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.transactions.clocks import Clocks
from veristream.history.checks.transactions.keys import Bools, Longs, lowest, pack, spread, starts_of
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.properties import Property
from veristream.history.reasons import LOOKED_AT, Evidence
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import ABSENCE, WITNESSES, make_witness, order_of

_PAIRS_AT_ONCE: Final = 1 << 22
_KIND: Final = "zombie commit"


def check_fenced(context: Context) -> Evidence:
    """Returns what the history shows of the property."""
    control = context.control
    operations = int(np.isin(control["operation"], list(LOOKED_AT[Property.FENCED])).sum())
    ok = control["outcome"] == Outcome.OK
    opens = np.flatnonzero(ok & (control["operation"] == Operation.OPEN) & (control["group"] != NONE))
    commits = np.flatnonzero(ok & (control["operation"] == Operation.END_COMMIT))
    groups = pack((control["group"][opens], control["process"][opens]))
    several = control["group"][opens[np.unique(groups, return_index=True)[1]]]
    _, owners = np.unique(several, return_counts=True)
    asked = int((owners > 1).sum())
    zombies, uncompared = _decide(context, opens, commits)
    counts: dict[str, int] = {}
    witnesses: tuple[Witness, ...] = ()
    if zombies.size and (context.manifest.complete or _KIND not in ABSENCE):
        counts = {_KIND: int(zombies.size)}
        witnesses = tuple(_witnesses(context, opens, zombies))
    return Evidence(operations, asked, 0, uncompared, counts, witnesses)


def _decide(context: Context, opens: Longs, commits: Longs) -> tuple[Longs, bool]:
    """Returns the commits of fenced producers, and whether another one could not be compared."""
    control, clocks = context.control, Clocks(context)
    opens = _earliest(control, opens)
    group = control["group"][opens]
    order = np.argsort(group, kind="stable")
    opens, group = opens[order], group[order]
    first = np.searchsorted(group, control["group"][commits])
    count = np.searchsorted(group, control["group"][commits], side="right") - first
    begin_ns = _begin_ns(control, commits)
    zombies: list[Longs] = []
    uncompared = False
    for some in _portions(count):
        row, place = spread(count[some], first[some])
        commit, fence = commits[some][row], opens[place]
        fencing = (control["process"][commit] != control["process"][fence]) & (
            control["epoch"][fence] > control["epoch"][commit]
        )
        row, commit, fence = row[fencing], commit[fencing], fence[fencing]
        known = clocks.comparable(control["process"][commit], control["process"][fence])
        before = known & (control["time_ns"][fence] < begin_ns[some][row])
        fenced = np.zeros(some.size, np.bool_)
        fenced[row[before]] = True
        uncompared |= bool((~known & ~fenced[row]).any())
        zombies.append(commits[some][fenced])
    return np.concatenate(zombies) if zombies else np.empty(0, np.int64), uncompared


def _earliest(control: Rows, opens: Longs) -> Longs:
    """Keeps of each group, process and epoch the OPEN of lowest time: what it does not fence, none does."""
    columns = [control[name][opens] for name in ("group", "process", "epoch")]
    order = np.lexsort((control["time_ns"][opens], *columns[::-1]))
    return opens[order][starts_of(*(column[order] for column in columns))]


def _begin_ns(control: Rows, commits: Longs) -> Longs:
    """Returns when the call of each commit began."""
    events = np.flatnonzero(control["operation"] == Operation.END_COMMIT)
    both = np.concatenate([commits, events])
    calls = pack((control["process"][both], control["call"][both]))
    known, first = np.unique(calls[commits.size :], return_index=True)  # the first one by index
    place = np.searchsorted(known, calls[: commits.size])
    found: Longs = control["time_ns"][events[first[place]]]
    return found


def _portions(count: Longs) -> Iterator[Longs]:
    """Yields rows that have about as many pairs as fit into memory; those without any are left out."""
    rows = np.flatnonzero(count)
    if rows.size:
        total = np.cumsum(count[rows])
        cuts = np.searchsorted(total, np.arange(_PAIRS_AT_ONCE, int(total[-1]), _PAIRS_AT_ONCE))
        yield from (each for each in np.split(rows, np.unique(cuts)) if each.size)


def _witnesses(context: Context, opens: Longs, zombies: Longs) -> Iterator[Witness]:
    control = context.control
    keys = (control[name][zombies] for name in ("group", "process", "index"))
    for row in zombies[lowest(WITNESSES, *keys)].tolist():
        (commit,) = control.events([row])
        begin = _begin(control, commit)
        same = opens[
            (control["group"][opens] == commit.group)
            & (control["epoch"][opens] > commit.epoch)
            & (control["process"][opens] != commit.process)
            & (control["time_ns"][opens] < begin.time_ns)
        ]
        fences = [one for one in control.events(same) if context.comparable(one.process, commit.process)]
        anomaly = Anomaly(_KIND, group=commit.group, process=commit.process, index=commit.index)
        events = [min(fences, key=order_of), commit]
        if begin.outcome is Outcome.INVOKE:
            events.append(begin)
        yield make_witness(anomaly, events, context.manifest)


def _begin(control: Rows, commit: Event) -> Event:
    """Returns the first event of a call."""
    found: Bools = (control["process"] == commit.process) & (control["call"] == commit.call)
    return control.events(np.flatnonzero(found)[:1])[0]
