"""The command `veristream`: one file per verb, and the only place that prints."""

from __future__ import annotations


def main() -> None:
    """Runs the command of this process's arguments and exits."""
    from veristream.cli.app import run

    run()
