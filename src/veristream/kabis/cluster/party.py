"""One party's process.

Run as `python -m veristream.kabis.cluster.party validator|storage [--attended] [--fault F] ...`.

The other arguments are those of `validator_process` or `storage_process`. An attended party stops when its
standard input ends, that is, when the process that started it ends for any reason.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence

from veristream.kabis.cluster import liars
from veristream.kabis.cluster import storage_process as stores
from veristream.kabis.cluster import validator_process as validators
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the party; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="veristream.kabis.cluster.party", description=__doc__, add_help=False
    )
    parser.add_argument("role", choices=["validator", "storage"])
    parser.add_argument("--attended", action="store_true")
    parser.add_argument("--fault", choices=sorted({*liars.LYING_VALIDATORS, *liars.LYING_STORES}))
    given, rest = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)
    if given.attended:
        threading.Thread(target=_stop_when_alone, daemon=True).start()
    match given.role, given.fault:
        case "validator", None:
            return validators.main(rest)
        case "validator", fault:
            return liars.run_validator(ValidatorFault(fault), rest)
        case _, None:
            return stores.main(rest)
        case _, fault:
            return liars.run_storage(StorageFault(fault), rest)


def _stop_when_alone() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
