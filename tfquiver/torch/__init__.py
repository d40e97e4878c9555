"""PyTorch: `tfquiver.torch.QuiverDataset`, an IterableDataset over the same cache and the same epochs as everybody's.

Called by users, in trainers and in DataLoader's workers. Never imports TensorFlow, and PyTorch only here: `pip install
'.[torch]'` in a clone. Which reader is in which session is decided in `participants` and `epochs`; a worker's own
iteration is `iteration`, and how an epoch is gone on with by all its readers together, `resuming`.
"""

from __future__ import annotations

from tfquiver.torch.elements import as_tensors
from tfquiver.torch.quiver_dataset import QuiverDataset

__all__ = ["QuiverDataset", "as_tensors"]
