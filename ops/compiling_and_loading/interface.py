"""Whether a loaded library is of these sources: the ops and functions that this package calls, as it calls them."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

# By op, what it is called with (the registrations in ops/tf).
OPS = {
    "quiver_dataset": {
        "digest_id", "session_key", "options", "num_records", "parse_defaults",
        "dense_keys", "dense_shapes", "sparse_keys", "sparse_types", "ragged_keys", "ragged_types", "ragged_splits",
        "field_types", "field_shapes", "field_little_endian", "field_offsets",
    },
    "quiver_once_dataset": {
        "input_dataset", "mop_up_dataset", "digest_id", "num_records", "num_shards", "endpoint", "hold_back",
        "takeover_ms", "output_types", "output_shapes",
    },
    "quiver_ends_at_once_dataset": {"input_dataset", "output_types", "output_shapes", "told_as"},
}  # fmt: skip
FUNCTIONS = (
    "tfq_build_info", "tfq_delivery_stats", "tfq_leave_after", "tfq_resume_all", "tfq_set_epoch",
    "tfq_set_kept_endpoint", "tfq_set_label", "tfq_set_restoring", "tfq_stop_all", "tfq_waiting",
)  # fmt: skip


def differences(ops: Any, functions: ctypes.CDLL) -> list[str]:
    """What it lacks, and what it asks for that nobody gives it; empty: it is of these sources, as far as calls go.

    Args:
      ops: the module that `tf.load_op_library` makes of it.
    """
    found = missing_functions(functions)
    for name, given in OPS.items():
        op = getattr(ops, name, None)
        if op is None:
            found.append(f"no op {name}")
            continue
        takes = {one.name: one for one in inspect.signature(op).parameters.values() if one.name != "name"}
        found += [f"no {one} of {name}" for one in sorted(given - takes.keys())]
        asked = (one for one in sorted(takes.keys() - given) if takes[one].default is inspect.Parameter.empty)
        found += [f"{one} of {name}, which is not known here" for one in asked]
    return found


def missing_functions(functions: ctypes.CDLL) -> list[str]:
    return [f"no function {name}" for name in FUNCTIONS if not hasattr(functions, name)]
