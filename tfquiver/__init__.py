"""A cache for training data that many TensorFlow jobs share. Importing this does not import TensorFlow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfquiver.version import VERSION as __version__  # noqa: F401 - public

if TYPE_CHECKING:
    from tfquiver.cli.status_asked_watched_explained.status import status as status
    from tfquiver.dataset_arguments.fixed_length import FixedLength as FixedLength
    from tfquiver.dataset_arguments.option_groups import Connection as Connection
    from tfquiver.dataset_arguments.option_groups import FirstUse as FirstUse
    from tfquiver.dataset_arguments.option_groups import Reading as Reading
    from tfquiver.dataset_arguments.orders import Deterministic as Deterministic
    from tfquiver.dataset_arguments.orders import Replay as Replay
    from tfquiver.dataset_arguments.orders import Shuffled as Shuffled
    from tfquiver.dataset_arguments.samplings import ClassBalanced as ClassBalanced
    from tfquiver.dataset_arguments.samplings import Curriculum as Curriculum
    from tfquiver.dataset_arguments.samplings import Pacing as Pacing
    from tfquiver.dataset_arguments.samplings import Reservoir as Reservoir
    from tfquiver.dataset_arguments.samplings import Sampling as Sampling
    from tfquiver.dataset_arguments.samplings import Weighted as Weighted
    from tfquiver.dataset_arguments.samplings import WithReplacement as WithReplacement
    from tfquiver.materializing.materialize import materialize as materialize
    from tfquiver.scanning.cutting import CutPolicy as CutPolicy
    from tfquiver.tensorflow_client.distributed import distribute as distribute
    from tfquiver.tensorflow_client.exactly_once import delivery_stats as delivery_stats
    from tfquiver.tensorflow_client.input_report.explain_input import explain_input as explain_input
    from tfquiver.tensorflow_client.iterators import iterators_stopped as iterators_stopped
    from tfquiver.tensorflow_client.quiver_dataset import dataset as dataset
    from tfquiver.tensorflow_client.shared_batches.transformation import one_stream as one_stream
    from tfquiver.tensorflow_client.step_times.steps import step as step

_HOMES = {
    "ClassBalanced": "tfquiver.dataset_arguments.samplings",
    "Connection": "tfquiver.dataset_arguments.option_groups",
    "Curriculum": "tfquiver.dataset_arguments.samplings",
    "CutPolicy": "tfquiver.scanning.cutting",
    "Deterministic": "tfquiver.dataset_arguments.orders",
    "FirstUse": "tfquiver.dataset_arguments.option_groups",
    "FixedLength": "tfquiver.dataset_arguments.fixed_length",
    "Pacing": "tfquiver.dataset_arguments.samplings",
    "Reading": "tfquiver.dataset_arguments.option_groups",
    "Replay": "tfquiver.dataset_arguments.orders",
    "Reservoir": "tfquiver.dataset_arguments.samplings",
    "Sampling": "tfquiver.dataset_arguments.samplings",
    "Shuffled": "tfquiver.dataset_arguments.orders",
    "Weighted": "tfquiver.dataset_arguments.samplings",
    "WithReplacement": "tfquiver.dataset_arguments.samplings",
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
