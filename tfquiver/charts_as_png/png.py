"""Whether pictures can be drawn here, and one saved."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tfquiver import named_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def save(figure: Figure, path: Path) -> None:
    """Raises TfquiverError naming `path` when it cannot be written there."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)  # draws without a display, whatever matplotlib is set to
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise named_files.not_written(error, str(path), path) from error
