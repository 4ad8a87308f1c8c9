"""The public names of Kabis: each exists, documents import no others, and importing them is cheap."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from veristream import kabis

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_public_name_is_there() -> None:
    assert dir(kabis) == sorted(kabis.__all__)
    assert all(getattr(kabis, name).__name__ == name for name in kabis.__all__)
    with pytest.raises(AttributeError, match=r"module 'veristream.kabis' has no attribute 'Nothing'"):
        kabis.Nothing  # noqa: B018


def test_documents_import_public_names_only() -> None:
    used = {
        name.strip()
        for page in sorted(DOCS.glob("*.md"))
        for names in re.findall(r"^from veristream\.kabis import (.+)$", page.read_text("utf-8"), re.M)
        for name in names.split(",")
    }
    assert {"Access", "ClusterFolder", "Record"} <= used <= set(kabis.__all__)
    deeper = {
        module
        for page in sorted(DOCS.glob("*.md"))
        for module in re.findall(r"^from (veristream\.kabis\.\S+) import", page.read_text("utf-8"), re.M)
    }
    assert deeper == {"veristream.kabis.spark"}  # it needs PySpark


def test_importing_the_package_loads_no_client() -> None:
    code = (
        "import sys, veristream.kabis; print([m for m in sys.modules if m.startswith('veristream.kabis.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
