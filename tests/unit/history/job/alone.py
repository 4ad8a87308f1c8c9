"""Audits a history in a process of its own: `alone.py SMALL HISTORY [MIB]`.

The audit of a small history comes first, since what has to be loaded and compiled is not what is measured.
With MIB, the process may then have so much more memory than it has: it runs `veristream audit --json`. Else
it writes the audit, and the peak of its memory in bytes before and after.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from veristream.cli import app
from veristream.history.job.run import Options, audit_folder
from veristream.history.report.json import render_audit

HERE = Options(rows_here=sys.maxsize)


def main() -> None:
    """Audits as the arguments say."""
    small, history, *limits = sys.argv[1:]
    audit_folder(Path(small), options=HERE)
    for mib in limits:
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = size * resource.getpagesize() + (int(mib) << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        app.app(["audit", history, "--json"])
    before = _peak()
    audit = json.loads(render_audit(audit_folder(Path(history), options=HERE)))
    json.dump({"before": before, "peak": _peak(), "audit": audit}, sys.stdout)


def _peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = (each for each in status if each.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
