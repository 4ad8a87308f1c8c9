"""Runs a setting on a stack, several times for a median; the clients are processes that start together."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _kabis import PRODUCERS, Setting
from _measure import middle, say
from _stacks import CONSUMER, Stack

SECONDS_MAX = 900.0
START_S = 0.2


@dataclass(frozen=True, slots=True)
class Case:
    """A setting on a stack; `on` is the stack's name."""

    on: str
    stack: Stack
    setting: Setting

    @property
    def name(self) -> str:
        """The names of stack and setting."""
        return f"{self.on}: {self.setting.name}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of a run: events/s until the last event was consumed, and until all were acknowledged."""

    on: str
    setting: Setting
    consumed_per_s: float
    produced_per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def measure(cases: Sequence[Case], runs: int) -> list[Figures]:
    """Returns the median run of each case; the cases alternate, so that a busy machine favours none."""
    rounds = [[run(case, number) for case in cases] for number in range(runs)]
    found = [middle(each, lambda figures: figures.consumed_per_s) for each in zip(*rounds, strict=True)]
    for each in found:
        say(
            f"  {each.on}: {each.setting.name}: {each.consumed_per_s:,.0f} events/s,"
            f" {each.cpu_us:.1f} µs of CPU each"
        )
    return found


def run(case: Case, number: int) -> Figures:
    """Runs the clients of a setting on fresh topics."""
    stack, setting = case.stack, _again(case.setting, number)
    stack.prepare(setting)
    count = setting.events * len(PRODUCERS)
    commands = [[*stack.client(CONSUMER, setting), str(count)]]
    commands += [stack.client(name, setting) for name in PRODUCERS]
    with _started(commands) as clients:
        before_s = _cpu_s(stack.pids())
        begin = time.monotonic() + START_S
        for client in clients:
            assert client.stdin is not None
            client.stdin.write(f"{begin}\n")
            client.stdin.flush()
        consumer, *producers = [_end(client) for client in clients]
        cpu_s = _cpu_s(stack.pids()) - before_s + sum(each["cpu_s"] for each in [consumer, *producers])
    stack.clean(setting)
    return Figures(
        case.on,
        case.setting,
        count / (consumer["ended"] - begin),
        count / (max(each["ended"] for each in producers) - begin),
        cpu_s / count * 1e6,
        consumer["p50_ms"],
        consumer["p99_ms"],
    )


def _again(setting: Setting, number: int) -> Setting:
    """Returns the setting with other topics."""
    return replace(
        setting,
        validated=tuple(f"{name}-{number}" for name in setting.validated),
        unvalidated=tuple(f"{name}-{number}" for name in setting.unvalidated),
    )


@contextmanager
def _started(commands: Sequence[list[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts clients that are ready and wait for the start time; kills those still running at the end."""
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    try:
        for client in clients:
            assert client.stdout is not None
            ready = client.stdout.readline()
            if ready != "ready\n":
                raise RuntimeError(f"a client did not start: {ready!r}")
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.wait()


def _end(client: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = client.communicate(timeout=SECONDS_MAX)
    if client.returncode != 0 or not output:
        raise RuntimeError(f"a client ended with exit code {client.returncode}")
    result: dict[str, Any] = json.loads(output)
    return result


def _cpu_s(leaders: Sequence[int]) -> float:
    """Returns the CPU time that process groups have used so far."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[2]) in leaders:
            ticks += int(fields[11]) + int(fields[12])  # user and system time
    return ticks / os.sysconf("SC_CLK_TCK")
