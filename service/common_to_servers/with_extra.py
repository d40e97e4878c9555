"""A server that needs packages which are not everybody's: where they are missing, one line says how to get them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def run(module: str, extra: str) -> None:
    """Runs `module`.run(). Exits with code 1 and one line where a package of tfquiver[extra] is missing."""
    try:
        main = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tfquiver"):
            raise
        needs = f"needs the package {error.name}: pip install '.[{extra}]' in a clone of tfquiver"
        sys.exit(f"{Path(sys.argv[0]).name}: {needs}")
    main.run()
