"""Events: the visible parts of steps, numbered in one table for all networks that are compared."""

from __future__ import annotations

import re

import numpy as np

from veristream.ir.actions import Action, render_label
from veristream.search.refine.tables import SequenceTable, Words

TAU = 0
"""The event of all invisible steps."""
TAU_TEXT = "tau"


class Alphabet:
    """The events of all networks that are compared; equal texts are one event."""

    _SHOWN = re.compile(r"(?s)(.*)\(((?:0|-?[1-9][0-9]*)(?:, (?:0|-?[1-9][0-9]*))*)\)")

    def __init__(self, byte_max: int) -> None:
        self.table = SequenceTable(byte_max)
        self._names: dict[str, int] = {}
        self.table.add(np.array([-1], np.int64))  # TAU

    def word(self, actions: tuple[Action, ...]) -> tuple[Words, Words]:
        """The names of the steps of each action: `wording` and `fixed` of a system."""
        words = [self._word(action) for action in actions]
        wording = np.array([-1, *(taken for taken, _ in words)], np.int64)[1:]
        width = 2 + max((len(fixed) for _, fixed in words), default=0)
        table = np.zeros((max(1, len(actions)), width), np.int64)
        for row, (_, fixed) in zip(table, words, strict=False):
            row[: len(fixed) + 1] = (len(fixed) - 1, *fixed)
        return wording, table

    def _word(self, action: Action) -> tuple[int, tuple[int, ...]]:
        """Splits a name such as `a(1)`, since `a` with the argument 1 has the same text."""
        name = action.label.name
        shown = None if action.label.arguments else self._SHOWN.fullmatch(name)
        numbers: tuple[int, ...] = ()
        if shown is not None:
            name, numbers = shown[1], tuple(map(int, shown[2].split(", ")))
        number = self._names.setdefault(name, len(self._names))
        return (len(action.label.arguments) if action.visible else -1), (number, *numbers)

    def text(self, event: int) -> str:
        """The event as it is reported."""
        if event == TAU:
            return TAU_TEXT
        name, *arguments = (int(item) for item in self.table[event])
        text = list(self._names)[name]
        return render_label(text, tuple(arguments))
