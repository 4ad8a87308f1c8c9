"""Headless Chromium, controlled by its DevTools protocol over a pair of pipes.

The pipes need no port, no driver and no package, and the protocol sets what a window cannot: a view of 400
pixels, a dark scheme.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it does not work as root, which CI often is
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

Message = dict[str, Any]


def find_chromium() -> str | None:
    """Returns the command that starts it; None if it is not installed."""
    return next((found for found in map(shutil.which, COMMANDS) if found), None)


class ChromiumError(Exception):
    """Chromium did not answer, or rejected a command."""


@dataclass(slots=True)
class Tab:
    """A page of the browser: sends commands and collects events."""

    reader: int
    writer: int
    session: str | None = None
    told: list[Message] = field(default_factory=list)
    asked: int = 0
    rest: bytes = b""

    def ask(self, method: str, **parameters: object) -> Message:
        """Sends a command and returns its answer."""
        self.asked += 1
        message: Message = {"id": self.asked, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self.asked:
                self.told.append(answer)
            elif "error" in answer:
                raise ChromiumError(f"{method}: {answer['error']['message']}")
            else:
                found: Message = answer["result"]
                return found

    def wait_for(self, event: str) -> None:
        """Waits until the page has reported an event."""
        while all(message.get("method") != event for message in self.told):
            self.told.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """Runs a script in the page and returns its value, awaiting a promise."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise ChromiumError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def _receive(self) -> Message:
        deadline_s = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reader], [], [], max(0.0, deadline_s - time.monotonic()))
            read = os.read(self.reader, 1 << 20) if ready else b""
            if not read:
                raise ChromiumError(
                    "Chromium has ended" if ready else f"no answer within {PATIENCE_S:.0f} s"
                )
            self.rest += read
        line, _, self.rest = self.rest.partition(b"\0")
        message: Message = json.loads(line)
        return message


@contextmanager
def open_chromium(command: str, profile: Path) -> Iterator[Tab]:
    """Starts a browser with one empty page, and stops it on exit."""
    with (profile / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _PLACED, "sh", command, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield _attach(Tab(process.stdout.fileno(), process.stdin.fileno()))
    finally:
        process.stdin.close()  # which ends it
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


_PLACED = 'exec "$@" 3<&0 4>&1 </dev/null >&2'
"""The protocol uses fixed file descriptors: 3 for commands, 4 for answers."""


def _attach(tab: Tab) -> Tab:
    """Returns a tab that is attached to the only page."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        targets = tab.ask("Target.getTargets")["targetInfos"]
        pages = [target["targetId"] for target in targets if target["type"] == "page"]
        if pages:
            answer = tab.ask("Target.attachToTarget", targetId=pages[0], flatten=True)
            tab.session = answer["sessionId"]
            return tab
        time.sleep(0.1)
    raise ChromiumError("Chromium opened no page")
