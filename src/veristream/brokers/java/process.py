"""A process that is given commands as lines of JSON, and answers each with a line of JSON.

    {"id": 1, "do": "begin"}
    {"id": 1, "producer": 1000, "epoch": 0, "must_abort": false}
    {"id": 2, "do": "commit"}
    {"id": 2, "error": "org.apache.kafka.common.errors.TimeoutException", "message": "...", ...}

Answers may come in any order, and commands may be outstanding when the next one is given.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from veristream.errors import EnvironmentFailure

Answer = Mapping[str, Any]
Told = Callable[[Answer], None]

ENDED: Final = "ProcessEnded"
NO_ANSWER: Final = "NoAnswer"
END_S: Final = 10.0
WORDS_BYTES: Final = 8_192


class JavaError(Exception):
    """A command was answered with an exception, or not at all; `name` is the class without its package.

    `queued` says whether the client had taken a record, `must_abort` whether its transaction has to be
    aborted.
    """

    def __init__(self, answer: Answer) -> None:
        self.kind = str(answer.get("error", ""))
        self.name = self.kind.rpartition(".")[2]
        self.message = str(answer.get("message", ""))
        self.cause = str(answer.get("cause", "")).rpartition(".")[2]
        self.queued = bool(answer.get("queued", True))
        self.must_abort = bool(answer.get("must_abort", False))
        super().__init__(f"{self.name}: {self.message}" if self.message else self.name)


class Pending:
    """A command that was given; its answer may be awaited from any thread."""

    def __init__(self, verb: str, told: Told | None) -> None:
        self.verb = verb
        self._told = told
        self._come = threading.Event()
        self._answer: Answer = {}

    def settle(self, answer: Answer) -> None:
        """Takes the answer."""
        self._answer = answer
        try:
            if self._told is not None:
                self._told(answer)
        finally:
            self._come.set()

    def wait(self, timeout_s: float | None = None) -> Answer:
        """Returns the answer; raises JavaError if it is an exception or does not come in time."""
        if not self._come.wait(timeout_s):
            said = f"{self.verb} was not answered within {timeout_s} s"
            raise JavaError({"error": NO_ANSWER, "message": said})
        if "error" in self._answer:
            raise JavaError(self._answer)
        return self._answer


class CommandProcess:
    """A process with this protocol; `log` gets what it says besides."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._pending: dict[int, Pending] = {}
        self._last = 0
        self._problem = ""
        self._dismissed = False
        try:
            with log.open("ab") as words:
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                    start_new_session=True,
                )
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot start {command[0]}: {error.strerror}", "check that it exists and may be executed"
            ) from error
        assert self._child.stdin is not None and self._child.stdout is not None
        self._commands: IO[bytes] = self._child.stdin
        self._reader = threading.Thread(target=self._read, args=(self._child.stdout,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def give(self, verb: str, told: Told | None = None, **fields: Any) -> Pending:
        """Gives a command; `told` is called with its answer, by another thread.

        Raises EnvironmentFailure if the process has ended, unless `end` or `kill` ended it.
        """
        pending = Pending(verb, told)
        with self._lock:
            self._last += 1
            number = self._last
            self._pending[number] = pending
            try:
                self._commands.write(json.dumps({"id": number, "do": verb, **fields}).encode() + b"\n")
                self._commands.flush()
            except (OSError, ValueError):  # its input is closed
                del self._pending[number]
                ended = True
            else:
                ended = False
        if ended or not self._reader.is_alive():
            if threading.current_thread() is not self._reader:
                self._reader.join(END_S)
            self.check()
            self._settle_all()
            if ended:
                pending.settle({"error": ENDED})
        return pending

    def check(self) -> None:
        """Raises EnvironmentFailure if the process has ended by itself."""
        if self._problem and not self._dismissed:
            raise EnvironmentFailure(self._problem, f"see {self._log}")

    def end(self, timeout_s: float = END_S) -> None:
        """Closes the input, upon which the process ends; kills it after some time."""
        self._dismissed = True
        with self._lock, suppress(OSError):  # it has ended, and did not read all
            self._commands.close()
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join(END_S)

    def kill(self) -> None:
        """Kills the process (SIGKILL); commands that are under way get the error `ProcessEnded`."""
        self._dismissed = True
        self._child.kill()
        self.end()

    def _read(self, answers: IO[bytes]) -> None:
        for line in answers:
            try:
                answer = json.loads(line)
                with self._lock:
                    pending = self._pending.pop(answer["id"])
            except (ValueError, KeyError, TypeError):
                self._problem = f"the Java client answered {line[:200]!r}, which no command awaits"
                self._child.kill()
                break
            pending.settle(answer)
        answers.close()
        code = self._child.wait()
        self._problem = self._problem or f"the Java client ended with exit code {code}{self._last_words()}"
        self._settle_all()

    def _settle_all(self) -> None:
        with self._lock:
            left, self._pending = self._pending, {}
        for each in left.values():
            each.settle({"error": ENDED, "message": self._problem})

    def _last_words(self) -> str:
        lines = self._log.read_bytes()[-WORDS_BYTES:].decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        telling = [line for line in said if "Exception" in line or "Error" in line] or said[-1:]
        return f": {telling[0]}" if telling else ""
