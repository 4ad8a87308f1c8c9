"""How a party's process begins."""

from __future__ import annotations

import subprocess
import sys

import pytest

BATCHES = 50
PAGES = 256  # of a batch of one MiB

COME_AND_GO = f"""
import platform, resource
from veristream.kabis.wire.process import keep_freed_memory
if platform.libc_ver()[0] == "glibc":
    keep_freed_memory()
    kept = [bytearray(1 << 20) for _ in range(4)]
    kept.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({BATCHES}):
        kept = [bytearray(1 << 20) for _ in range(4)]
        kept.clear()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_of_batches_that_come_and_go_is_used_again() -> None:
    ran = subprocess.run([sys.executable, "-c", COME_AND_GO], capture_output=True, text=True, check=True)
    if not ran.stdout:
        pytest.skip("only the GNU C library can be told")
    assert int(ran.stdout) < PAGES, "fewer fresh pages than one batch takes, for all of them together"
