"""How the experiments' plots look. Drawn without a display; files are small enough to be committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

DEFAULT_OUT = Path("docs/plots")
# One colour a way of caching, whatever the plot. From Okabe and Ito: told apart by the colour-blind too.
COLOURS = {
    "relevance": "#0072B2",
    "cyclic": "#E69F00",
    "lru": "#D55E00",
    "none": "#999999",
    "all cached": "#009E73",
    "floor": "#000000",
}
JOB_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442")
_INCH_PX = 110
_STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.0,
}
mpl.rcParams.update(_STYLE)


def figure(rows: int = 1, columns: int = 1, width_in: float = 7.5, height_in: float = 3.2, **more: Any) -> Any:
    """A figure and its axes, as plt.subplots gives them; `more` goes there too."""
    return plt.subplots(rows, columns, figsize=(width_in, height_in), layout="constrained", **more)


def fading(colour: str) -> Any:
    """A colour map from white to this colour."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(colour, ["#ffffff", colour])


def save(drawn: Any, out: Path, name: str) -> Path:
    """Writes `<out>/<name>.png` and closes the figure; the file. Equal figures give equal files."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.png"
    drawn.savefig(path, dpi=_INCH_PX, metadata={"Software": None})
    plt.close(drawn)
    return path
