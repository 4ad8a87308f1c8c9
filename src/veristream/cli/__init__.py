"""The command `veristream`: one file per verb, and the only place that prints."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `veristream` script."""
    from veristream.cli.app import run

    run()
