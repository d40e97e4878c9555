"""A cache for training data that many TensorFlow jobs share. Importing this does not import TensorFlow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfquiver.version import VERSION as __version__  # noqa: F401 - public

if TYPE_CHECKING:
    from tfquiver.cli.status_asked_watched_explained.status import status as status
    from tfquiver.materializing.materialize import materialize as materialize
    from tfquiver.scanning.cutting import CutPolicy as CutPolicy
    from tfquiver.tensorflow_client.distributed import distribute as distribute
    from tfquiver.tensorflow_client.exactly_once import delivery_stats as delivery_stats
    from tfquiver.tensorflow_client.input_report.explain_input import explain_input as explain_input
    from tfquiver.tensorflow_client.iterators import iterators_stopped as iterators_stopped
    from tfquiver.tensorflow_client.quiver_dataset import dataset as dataset
    from tfquiver.tensorflow_client.shared_batches.transformation import one_stream as one_stream
    from tfquiver.tensorflow_client.step_times.steps import step as step
    from tfquiver.users_arguments_checked.fixed_length import FixedLength as FixedLength
    from tfquiver.users_arguments_checked.option_groups import Connection as Connection
    from tfquiver.users_arguments_checked.option_groups import FirstUse as FirstUse
    from tfquiver.users_arguments_checked.option_groups import Reading as Reading
    from tfquiver.users_arguments_checked.orders import Deterministic as Deterministic
    from tfquiver.users_arguments_checked.orders import Replay as Replay
    from tfquiver.users_arguments_checked.orders import Shuffled as Shuffled
    from tfquiver.users_arguments_checked.samplings import ClassBalanced as ClassBalanced
    from tfquiver.users_arguments_checked.samplings import Curriculum as Curriculum
    from tfquiver.users_arguments_checked.samplings import Pacing as Pacing
    from tfquiver.users_arguments_checked.samplings import Reservoir as Reservoir
    from tfquiver.users_arguments_checked.samplings import Sampling as Sampling
    from tfquiver.users_arguments_checked.samplings import Weighted as Weighted
    from tfquiver.users_arguments_checked.samplings import WithReplacement as WithReplacement

_HOMES = {
    "ClassBalanced": "tfquiver.users_arguments_checked.samplings",
    "Connection": "tfquiver.users_arguments_checked.option_groups",
    "Curriculum": "tfquiver.users_arguments_checked.samplings",
    "CutPolicy": "tfquiver.scanning.cutting",
    "Deterministic": "tfquiver.users_arguments_checked.orders",
    "FirstUse": "tfquiver.users_arguments_checked.option_groups",
    "FixedLength": "tfquiver.users_arguments_checked.fixed_length",
    "Pacing": "tfquiver.users_arguments_checked.samplings",
    "Reading": "tfquiver.users_arguments_checked.option_groups",
    "Replay": "tfquiver.users_arguments_checked.orders",
    "Reservoir": "tfquiver.users_arguments_checked.samplings",
    "Sampling": "tfquiver.users_arguments_checked.samplings",
    "Shuffled": "tfquiver.users_arguments_checked.orders",
    "Weighted": "tfquiver.users_arguments_checked.samplings",
    "WithReplacement": "tfquiver.users_arguments_checked.samplings",
    "dataset": "tfquiver.tensorflow_client.quiver_dataset",
    "delivery_stats": "tfquiver.tensorflow_client.exactly_once",
    "distribute": "tfquiver.tensorflow_client.distributed",
    "explain_input": "tfquiver.tensorflow_client.input_report.explain_input",
    "iterators_stopped": "tfquiver.tensorflow_client.iterators",
    "materialize": "tfquiver.materializing.materialize",
    "one_stream": "tfquiver.tensorflow_client.shared_batches.transformation",
    "status": "tfquiver.cli.status_asked_watched_explained.status",
    "step": "tfquiver.tensorflow_client.step_times.steps",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tfquiver' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
