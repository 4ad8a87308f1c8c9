"""`python -m veristream.cli`, for when the command is not on the PATH."""

from __future__ import annotations

from veristream.cli import main

if __name__ == "__main__":
    main()
