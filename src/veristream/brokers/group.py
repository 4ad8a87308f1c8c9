"""Sets up and starts the brokers of one kind in a folder."""

from __future__ import annotations

import shutil
import signal
import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from veristream.brokers.folder import STOP_PATIENCE_S
from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.group import ProcessGroup
from veristream.kabis.cluster.processes import Running

START_PATIENCE_S = 180.0
PAUSE_S = 1.0
"""How long to wait for the system to say that a process is suspended; its threads may go on until then."""


class BrokerGroup(ProcessGroup):
    """The brokers of one kind, each with a folder `KIND-1` and so on, which has its address when set up."""

    KIND: ClassVar[str]
    STOP_PATIENCE_S = STOP_PATIENCE_S

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    @abstractmethod
    def command(self, name: str) -> Sequence[str]:
        """Returns the command line that runs a broker."""

    @abstractmethod
    def answers(self, name: str) -> bool:
        """Whether a started broker is ready."""

    def names(self) -> list[str]:
        """Returns the names of all brokers in the folder."""
        found = [path.parent.name for path in self.folder.glob(f"{self.KIND}-*/address")]
        return sorted(found, key=lambda name: int(name.removeprefix(f"{self.KIND}-")))

    def address(self, name: str) -> str:
        """Returns the address that clients connect to."""
        return (self.folder / name / "address").read_text(encoding="utf-8").strip()

    def folder_of(self, name: str) -> Path:
        """Returns a broker's folder."""
        return self.folder / name

    def start(self, names: Iterable[str] | None = None) -> list[str]:
        """Starts the brokers that are not running, waits until they answer, and returns their names."""
        up = self.find()
        chosen = [name for name in (self.names() if names is None else names) if name not in up]
        try:
            for name in chosen:
                folder = self.folder / name
                self.running[name] = processes.start(name, self.command(name), folder, attended=False)
            for name in chosen:
                self._wait_for(name)
        except BaseException:
            self.stop(chosen)
            raise
        return chosen

    def last_words(self, name: str) -> tuple[str, str]:
        """Returns the error and the hint that a broker printed before it ended."""
        return processes.last_words(self.folder / name)

    def _wait_for(self, name: str) -> None:
        deadline_s = time.monotonic() + START_PATIENCE_S
        hint = f"see {self.folder / name / 'log.txt'}"
        while not self.answers(name):
            if not self.running[name].is_alive():
                said, advice = self.last_words(name)
                raise EnvironmentFailure(
                    f"{name} did not start: {said or 'it printed nothing'}", advice or hint
                )
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(f"{name} did not answer within {START_PATIENCE_S:.0f} s", hint)
            time.sleep(processes.POLL_S)

    def note(self, name: str) -> None:
        """Writes down the command line that a broker's process has by now, so that others can find it.

        A command that sets variables, or a script, becomes the broker, whose command line is another.
        """
        ours = self.running[name]
        now = processes.read_command(ours.pid)
        if now is not None:
            processes.write_note(self.folder / name, Running(name, ours.pid, now))

    def entrances(self) -> list[str]:
        """Returns the addresses that clients start from."""
        return [self.address(name) for name in self.names()]

    def pause(self, name: str) -> None:
        """Suspends a broker (SIGSTOP): its connections stay open, and nobody answers."""
        running = self.find_one(name)
        if running is not None:
            running.signal(signal.SIGSTOP)
            processes.wait_until(lambda: [] if processes.is_paused(running) else [running], PAUSE_S)

    def resume(self, name: str) -> None:
        """Continues a paused broker (SIGCONT)."""
        running = self.find_one(name)
        if running is not None:
            running.signal(signal.SIGCONT)

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops members, paused ones too; returns the names of those it stopped."""
        chosen = list(self.find() if names is None else names)
        for name in chosen:
            self.resume(name)  # a paused process would not hear that it should stop
        return super().stop(chosen)

    def remove(self) -> None:
        """Deletes the brokers' folders; none of them may be running."""
        for name in self.names():
            shutil.rmtree(self.folder / name)
