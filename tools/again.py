"""Runs the tests that failed in the last run of pytest once more, one after the other.

Some tests wait for processes, and a machine that stands still for seconds breaks what they assume. A
failure that repeats without other load is a failure. One that does not is printed as a defect to look into,
of the test or of the product: nothing is hidden. More than a few failures, or a file that cannot be
imported, get no second run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
FAILURES_MAX: Final = 5


def failed(names: Iterable[str]) -> list[str]:
    """The tests among these names, without the groups that pytest-xdist appends to them."""
    found = []
    for name in names:
        file, separator, test = name.partition("::")
        if not separator:
            raise ValueError(f"{file} was not run: no second run helps")
        inside = test.rfind("]")
        found.append(f"{file}::{test[: inside + 1]}{test[inside + 1 :].partition('@')[0]}")
    return found


def main() -> int:
    """Returns 0 if every failure was of a kind that does not repeat."""
    try:
        names = failed(json.loads(LAST_FAILED.read_text()))
        LAST_FAILED.unlink()  # pytest keeps what it did not run again, so that the next run would add to it
    except (OSError, ValueError) as error:
        print(error)
        return 1
    if not 0 < len(names) <= FAILURES_MAX:
        print(f"{len(names)} tests failed: no second run for none or for more than {FAILURES_MAX}")
        return 1
    print("a second run, one test at a time:", *names, sep="\n  ", flush=True)
    status = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *names], check=False
    ).returncode
    if status == 0:
        print("FAILED ONCE, passed alone; look into it:", *names, sep="\n  ", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
