"""Prometheus itself, as Debian packages it."""

from __future__ import annotations

import shutil

import pytest

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("prometheus")),
    reason="needs Prometheus and its promtool: apt-get install --no-install-recommends prometheus",
)
