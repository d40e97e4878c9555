"""The op that all of the demo's processes read with: where the package brings none it is compiled, once and by one of
them, before the clock of any other runs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

from tfquiver import errors
from tfquiver.ops.compiling_and_loading import tensorflows

COMPILING_S = 1800.0  # on a busy machine; each compiler has a deadline of its own


def is_brought(lib_dir: Path = tensorflows.LIB_DIR) -> bool:
    """By the package, as far as is known without importing TensorFlow."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        return False
    version = tensorflows.version_beside(Path(found.origin).parent)
    return bool(version) and (lib_dir / tensorflows.library_name(version)).is_file()


def main() -> int:
    """Says a line of JSON when it is there."""
    from tfquiver.ops.compiling_and_loading import loader

    try:
        loader.load()
    except errors.TensorFlowError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"op": "there"}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
