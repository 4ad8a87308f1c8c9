"""Runs the tools that set things up, each to its end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from veristream.errors import EnvironmentFailure

TOOL_S: Final = 60.0


def do(
    command: Sequence[str], environment: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end; raises EnvironmentFailure if that takes too long."""
    try:
        return subprocess.run(
            command,
            env=dict(environment),
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TOOL_S,
        )
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailure(f"{Path(command[0]).name} did not end within {TOOL_S:.0f} s") from late
