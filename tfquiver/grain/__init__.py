"""Grain: `tfquiver.grain.QuiverDataset`, a `grain.IterDataset` over the same cache as everybody's.

Called by users, in trainers and in Grain's worker processes. Never imports TensorFlow, and Grain only here: `pip
install '.[grain]'` in a clone. Each iterator reads a share of the data set that is settled beforehand
(`tfquiver.reader.share`), so that its state is its own: decision 0039.
"""

from __future__ import annotations

from tfquiver.grain.quiver_dataset import QuiverDataset

__all__ = ["QuiverDataset"]
