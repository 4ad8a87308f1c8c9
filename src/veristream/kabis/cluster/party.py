"""One party's process.

Run as `python -m veristream.kabis.cluster.party validator|storage [--attended] [--fault F] ...`.

With `--note`, the party records its own process in its folder, so that commands find it. The other
arguments are those of `validator_process` or `storage_process`. An attended party stops when its
standard input ends, that is, when the process that started it ends for any reason.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from veristream.errors import ModelError
from veristream.kabis.cluster import liars, processes
from veristream.kabis.cluster import storage_process as stores
from veristream.kabis.cluster import validator_process as validators
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault
from veristream.kabis.process.logs import log_to_file
from veristream.kabis.process.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the party; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="veristream.kabis.cluster.party",
        description=__doc__,
        add_help=False,
        allow_abbrev=False,  # the role's own --log is not short for --log-folder
    )
    parser.add_argument("role", choices=["validator", "storage"])
    parser.add_argument("--attended", action="store_true")
    parser.add_argument("--log-folder", type=Path, help="folder of the rotated log; by default stderr")
    parser.add_argument("--settings", type=Path, help="kabis.toml of the cluster")
    parser.add_argument("--note", action="store_true", help="write the process note to the log folder")
    parser.add_argument("--fault", choices=sorted({*liars.LYING_VALIDATORS, *liars.LYING_STORES}))
    given, rest = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)
    if given.settings is not None:
        rest += ["--settings", str(given.settings)]
    if given.log_folder is not None:
        try:
            log_to_file(given.log_folder, given.log_folder.name, load_settings(given.settings).log)
        except ModelError as error:
            sys.stderr.write(error.render() + "\n")
            return 2
        if given.note:  # who started us does not
            _write_note(given.log_folder)
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


def _write_note(folder: Path) -> None:
    pid = os.getpid()
    processes.write_note(folder, processes.Running(folder.name, pid, processes.read_command(pid) or ()))


def _stop_when_alone() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
