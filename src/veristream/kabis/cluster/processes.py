"""Starts, finds and stops processes that are recorded in a file.

A process id alone is not enough, because it may have been reused. So the file also contains the command,
and only a process with the same command line is ever signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.log.disk.files import replace

PROC = Path("/proc")
POLL_S = 0.02
STARTING_LOOKS = 5
"""How often to look again at a process that has no command yet."""
LAST_WORDS_BYTES = 8_192
OUTPUT_BYTES_MAX = 1 << 20
"""The size above which a start moves the output of earlier processes aside."""
KILLED_S = 60.0
"""How long to wait for processes to end after they are killed."""


@dataclass(slots=True)
class Running:
    """A started process; `child` is set if we are its parent."""

    name: str
    pid: int
    command: tuple[str, ...]
    child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def is_alive(self) -> bool:
        """Whether it runs and is the process that was started."""
        if self.child is not None:
            return self.child.poll() is None
        return read_command(self.pid) == self.command

    @property
    def exit_code(self) -> int | None:
        """Its exit code, if we are its parent and it has ended."""
        return None if self.child is None else self.child.poll()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if it is still the process that was started."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start(name: str, command: Sequence[str], folder: Path, *, attended: bool) -> Running:
    """Starts a process in a new session, and writes its output and its record to the folder.

    The standard input of an attended process is a pipe that ends with us.
    """
    try:
        _rotate(folder / "log.txt")
        with (folder / "log.txt").open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if attended else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise EnvironmentFailure(f"cannot start {name}: {error.strerror}", f"look at {folder}") from error
    running = Running(name, child.pid, tuple(command), child)
    write_note(folder, running)
    return running


def write_note(folder: Path, running: Running) -> None:
    """Writes the record by which `find` finds the process."""
    note = {"name": running.name, "pid": running.pid, "command": list(running.command)}
    replace(folder / "process.json", json.dumps(note).encode() + b"\n")


def _rotate(path: Path) -> None:
    """Moves the output of earlier processes aside once it is long; only the last such file is kept."""
    if path.exists() and path.stat().st_size > OUTPUT_BYTES_MAX:
        path.replace(path.with_suffix(".txt.1"))


def find(folder: Path) -> Running | None:
    """Returns the process recorded in the folder, if it still runs."""
    try:
        note = json.loads((folder / "process.json").read_text(encoding="utf-8"))
        running = Running(str(note["name"]), int(note["pid"]), tuple(map(str, note["command"])))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return running if running.is_alive() else None


def read_pid(folder: Path) -> int | None:
    """Returns the process id in the folder's note, whether or not the process still runs."""
    return _read_pid(folder / "process.json")


def read_ready(folder: Path) -> int | None:
    """Returns the process id in the folder's ready file; None until a process writes it."""
    return _read_pid(folder / "ready")


def _read_pid(path: Path) -> int | None:
    try:
        pid = json.loads(path.read_bytes())["pid"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return pid if isinstance(pid, int) else None


def read_command(pid: int) -> tuple[str, ...] | None:
    """Returns the command line of a process; None if it does not run."""
    if (PROC / "self" / "cmdline").exists():
        try:
            text = (PROC / str(pid) / "cmdline").read_text(encoding="utf-8", errors="replace")
            for _ in range(STARTING_LOOKS):
                if text or _has_ended(pid):
                    break
                time.sleep(POLL_S)  # the system has not yet written the command of a new process
                text = (PROC / str(pid) / "cmdline").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return tuple(text.split("\0")[:-1]) or None
    listed = subprocess.run(  # without /proc; this does not distinguish paths with spaces
        ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return tuple(listed.stdout.split()) or None


def _has_ended(pid: int) -> bool:
    """Whether the process has ended and only its parent has not noticed."""
    return _read_state(pid) in ("Z", "X")


def _read_state(pid: int) -> str:
    stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()[0]


def is_paused(running: Running) -> bool:
    """Whether the process is suspended by a signal, as far as the system tells."""
    try:
        return _read_state(running.pid) in ("T", "t")
    except OSError:
        return False


def stop(running: Iterable[Running], patience_s: float) -> list[str]:
    """Asks processes to stop, and kills those that do not in time; returns the names of the killed."""
    ours = list(running)
    for each in ours:
        each.signal(signal.SIGTERM)
    late = wait_until(lambda: [each for each in ours if each.is_alive()], patience_s)
    for each in late:
        each.signal(signal.SIGKILL)
    wait_until(lambda: [each for each in ours if each.is_alive()], KILLED_S)
    for each in ours:
        if each.child is not None and each.child.stdin is not None:
            each.child.stdin.close()
    return [each.name for each in late]


def kill(running: Running, patience_s: float) -> None:
    """Kills a process (-9) and waits until it has ended."""
    running.signal(signal.SIGKILL)
    wait_until(lambda: [running] if running.is_alive() else [], patience_s)


def wait_until(left: Callable[[], list[Running]], patience_s: float) -> list[Running]:
    """Waits until no process is left; returns those left after the time limit."""
    deadline_s = time.monotonic() + patience_s
    while True:
        rest = left()
        if not rest or time.monotonic() > deadline_s:
            return rest
        time.sleep(POLL_S)


def last_lines(folder: Path, count: int) -> list[str]:
    """Returns the last lines that a process printed."""
    return _read_tail(folder)[-count:]


def last_words(folder: Path) -> tuple[str, str]:
    """Returns the error and the hint that a process printed last."""
    lines = _read_tail(folder)
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if not errors:
        return (lines[-1] if lines else ""), ""
    message = lines[errors[-1]].removeprefix("error: ")
    after = lines[errors[-1] + 1 :]
    hints = [line.removeprefix("hint: ") for line in after if line.startswith("hint: ")]
    return message, hints[0] if hints else ""


def _read_tail(folder: Path) -> list[str]:
    try:
        with (folder / "log.txt").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_WORDS_BYTES))
            return log.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
