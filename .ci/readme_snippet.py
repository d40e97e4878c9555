"""Runs the first Python block of a README as a user would, with the data that the command before it makes and the
tfquiver that is installed. Another cache directory is put in place of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tensorflow as tf

import tfquiver
from tfquiver.ops.compiling_and_loading import loader

RECORDS = 2000


def main(readme: Path, folder: Path) -> None:
    home = Path(str(tfquiver.__file__)).parent
    assert home.is_relative_to(sys.prefix), f"{home} is not what was installed"
    assert find_spec("service") is None and find_spec("ops") is None, "top-level names leaked"
    library = loader.load()
    assert library.path.parent == home / "ops" / "lib", f"{library.path} is not the wheel's"

    text, command = readme.read_text(), Path(sys.executable).parent / "tfquiver"
    assert "\ntfquiver demo --data=data\n" in text, f"{readme}: what its Python reads is made otherwise"
    os.chdir(folder)
    subprocess.run([command, "demo", "--data=data"], check=True)
    found = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{readme}: no Python block"
    code = found[1].replace("~/tfquiver-cache", str(folder / "cache"))
    print(code)
    names: dict[str, Any] = {}
    exec(code, names)
    seen = [x.tobytes() for batch, _ in names["data"].as_numpy_iterator() for x in batch]
    assert len(seen) == len(set(seen)) == RECORDS, f"{len(seen)} records, {len(set(seen))} of them distinct"
    subprocess.run([command, "status", str(folder / "cache")], check=True)
    versions = f"Python {sys.version.split()[0]}, TensorFlow {tf.__version__}"
    print(f"{versions}, {library.path.name}: {len(seen)} records, each once")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]), Path(scratch))
