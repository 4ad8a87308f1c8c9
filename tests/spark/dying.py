"""A driver that kills itself in the middle of a search: `dying.py FOLDER DEPTH ARGUMENT...`.

It runs `veristream` with the arguments, and dies once the checkpoint in the folder is that deep. A thread
of this process watches the folder, because another process might notice too late.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from tests.spark.cluster import kill
from veristream.cli import main
from veristream.search.shared.checkpoint import MANIFEST


def depth_in(folder: Path) -> int:
    """Returns the depth of the checkpoint; -1 if there is none yet."""
    for manifest in folder.rglob(MANIFEST):
        return int(json.loads(manifest.read_text())["depth"])
    return -1


def die(folder: Path, depth: int) -> None:
    """Waits for the checkpoint, and kills this process."""
    while depth_in(folder) < depth:
        time.sleep(0.01)
    kill(os.getpid())


if __name__ == "__main__":
    threading.Thread(target=die, args=(Path(sys.argv[1]), int(sys.argv[2])), daemon=True).start()
    del sys.argv[1:3]
    main()
