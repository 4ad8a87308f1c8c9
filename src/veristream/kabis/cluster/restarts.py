"""When a party that ended is started again: at once, later, or not at all. Pure, except for its notes.

A party that keeps failing waits twice as long each time. One that refuses its arguments (exit code 2) is
left down, because starting it again changes nothing. One that the machine fails (exit code 3: a full disk,
a port in use) waits as long as the policy allows. A clean stop is somebody's wish and is respected.
"""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from pathlib import Path

from veristream.kabis.log.disk.files import replace

REFUSED, MACHINE_FAILED = 2, 3
"""Exit codes of a party: its arguments are wrong; the machine fails."""
_NOTE, _HELD = "restarts.json", "held"


@dataclass(frozen=True, slots=True)
class Policy:
    """Waits grow from `first_s` to `last_s`; a party is left down after `failures_max` quick failures.

    A party that has run for `stable_s` starts with a clean slate.
    """

    first_s: float = 0.5
    last_s: float = 60.0
    stable_s: float = 60.0
    failures_max: int = 8

    def judge(self, history: History, end: End) -> History:
        """Returns the history after a party has ended."""
        reason = end.describe()
        if end.code == 0:
            return changed(history, reason=reason, is_left=True, wait_s=0.0)
        failures = 1 if end.lived_s >= self.stable_s else history.failures + 1
        if end.code == REFUSED or failures > self.failures_max:
            return changed(history, failures=failures, reason=reason, is_left=True, wait_s=0.0)
        wait_s = min(self.last_s, self.first_s * (1 << min(failures - 1, 30)))
        if end.code == MACHINE_FAILED:
            wait_s = self.last_s
        return changed(history, failures=failures, reason=reason, wait_s=wait_s)


@dataclass(frozen=True, slots=True)
class End:
    """How a party ended; the code is None if another process started it."""

    code: int | None
    lived_s: float
    words: str = ""

    def describe(self) -> str:
        """The end in words."""
        match self.code:
            case None:
                how = "ended"
            case 0:
                how = "was stopped"
            case code if code < 0:
                with suppress(ValueError):
                    return f"was killed by {signal.Signals(-code).name}"
                return f"was killed by signal {-code}"
            case code:
                how = f"ended with exit code {code}"
        return f"{how}: {self.words}" if self.words and self.code != 0 else how


@dataclass(frozen=True, slots=True)
class History:
    """Restarts since the party was started by hand, failures in a row, and why it ended last.

    A party that `is_left` stays down until somebody starts it.
    """

    restarts: int = 0
    failures: int = 0
    reason: str = ""
    is_left: bool = False
    wait_s: float = 0.0


def read_history(folder: Path) -> History:
    """Returns what a supervisor noted in a party's folder; nothing if there is no readable note."""
    try:
        note = json.loads((folder / _NOTE).read_bytes())
        return History(
            int(note["restarts"]), int(note["failures"]), str(note["reason"]), bool(note["is_left"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return History()


def note_history(folder: Path, history: History) -> None:
    """Writes the note of a party."""
    replace(folder / _NOTE, json.dumps(asdict(history)).encode() + b"\n", flushed=False)


def forget_history(folder: Path) -> None:
    """Removes the note of a party, because somebody starts it."""
    (folder / _NOTE).unlink(missing_ok=True)


def hold(folder: Path) -> None:
    """Marks a party that is stopped on purpose, so that a supervisor leaves it alone."""
    if folder.is_dir():
        (folder / _HELD).touch()


def let_go(folder: Path) -> None:
    """Removes the mark of `hold`."""
    (folder / _HELD).unlink(missing_ok=True)


def is_held(folder: Path) -> bool:
    """Whether the party was stopped on purpose."""
    return (folder / _HELD).exists()
