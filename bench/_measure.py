"""Shared by all benchmarks: medians, the machine, tables, and the machine-readable result."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

Run = TypeVar("Run")


def middle(runs: Sequence[Run], key: Callable[[Run], float]) -> Run:
    """Returns the run with the median figure."""
    return sorted(runs, key=key)[len(runs) // 2]


def machine() -> dict[str, Any]:
    """Describes the machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def commit() -> str:
    """Returns the measured commit, marked if the checkout has changes."""
    return _git("rev-parse", "--short", "HEAD") + ("+changes" if _git("status", "--porcelain") else "")


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def say(text: str = "") -> None:
    """Prints a line."""
    print(text, flush=True)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; all columns but the first are right-aligned."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    say(f"\n{title}")
    for row in [head, ["-" * width for width in widths], *rows]:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        say("  " + "  ".join([first, *rest]))


def finish(name: str, ratios: dict[str, float], figures: dict[str, Any]) -> None:
    """Writes the results to a file and prints them as the last line."""
    whole = {
        "bench": name,
        "commit": commit(),
        "ratios": {key: round(value, 3) for key, value in ratios.items()},
        "figures": figures | {"machine": machine()},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    sys.stdout.flush()
    say(json.dumps(whole))


def times(values: Sequence[float]) -> float:
    return median(values)
