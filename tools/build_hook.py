"""Compiles the search loops for a wheel, which is then one for this kind of machine."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# pip's build environment removes from the path what the surrounding one contains, which may be an editable
# installation of this source tree; so the tree is put on the path after that.
BUILD = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("veristream.native.build", run_name="__main__")
"""


class LoopsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the object code of all loops to the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the loops; an editable installation does without."""
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-c", BUILD, os.path.join(self.root, "src"), self.folder.name]
        subprocess.run(command, check=True)
        build_data["force_include"][self.folder.name] = "veristream/native/compiled"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
