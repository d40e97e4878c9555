"""The JSON schema of `tfquiver status --json`, closed: what it does not describe is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

PATH = Path(__file__).resolve().parents[2] / "docs" / "format" / "status.schema.json"


def check(told: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError."""
    jsonschema.validate(json.loads(json.dumps(told)), _closed(json.loads(PATH.read_text())))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(one) for key, one in schema.items()}
    return closed | ({"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {})
