"""Commands of `tfquiver` as a test calls them in its own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Tool = Callable[..., tuple[int, str, str]]  # the exit code, and what was written


def as_json(tool: Tool, *arguments: str) -> dict[str, Any]:
    code, out, err = tool(*arguments, "--json")
    assert code == 0, err
    told: dict[str, Any] = json.loads(out)
    return told
