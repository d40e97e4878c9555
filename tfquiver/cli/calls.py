"""What commands that ask a running service share: where it is, the call, its reply as plain values, narrow tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from rich import box
from rich.table import Table

from tfquiver import errors, node_child, rpc, serving

_CALL_S = 5.0


def coordinator_address(where: str) -> str:
    """`where` itself when it is an address; else that of the node that runs in this directory."""
    if not Path(where).is_dir():
        if not serving.is_address(where):
            raise errors.InvalidArgumentError(f"{where!r} is neither host:port nor a directory")
        return where
    return node_child.read_endpoint(Path(where)).coordinator


def ask(method: Callable[..., Any], request: Any, token: str, whom: str, timeout_s: float = _CALL_S) -> Any:
    """The reply. Raises the typed error, which names `whom`."""
    try:
        return method(request, timeout=timeout_s, metadata=rpc.metadata(token), wait_for_ready=True)
    except grpc.RpcError as error:
        raise rpc.from_rpc_error(error, whom) from error


def plain(message: Any) -> dict[str, Any]:
    """Fields by name; integers as such, bytes in hexadecimal digits."""
    fields: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _numbers(message, fields)


def _numbers(message: Any, fields: dict[str, Any]) -> dict[str, Any]:
    # JSON has no 64-bit integers, so the mapping writes them as strings, and bytes as base64: undo both.
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if field.name in fields and isinstance(fields[field.name], dict):
                _numbers(value, fields[field.name])
        elif isinstance(value, bytes):
            fields[field.name] = value.hex()
        elif isinstance(value, int) and not isinstance(value, bool) and field.enum_type is None:
            fields[field.name] = value
    return fields


def table(*headings: str) -> Table:
    """Narrow: it is read in terminals of 80 columns."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return made
