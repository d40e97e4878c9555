"""Which environment variables say how to reach object stores (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = re.compile(r"AWS_|FSSPEC_|GOOGLE_|GCLOUD_|AZURE_|STORAGE_EMULATOR_HOST$")


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without them: for a daemon that is everybody's, whoever happens to start it."""
    return {name: value for name, value in environment.items() if not _NAMES.match(name)}
