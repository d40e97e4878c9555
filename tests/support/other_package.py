"""A package of somebody else, as pip would have installed it."""

from __future__ import annotations

from pathlib import Path


def install(directory: Path, module: str, source: str, entry_points: str) -> None:
    """Into `directory`, which whoever is to find it has on its path: `module`.py, and what it registers."""
    told = directory / f"{module}-1.0.dist-info"
    told.mkdir(parents=True)
    (directory / f"{module}.py").write_text(source)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(entry_points)
