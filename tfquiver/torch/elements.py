"""What a batch of records becomes, in a worker: the user's decoding, and tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.utils.data

from tfquiver import errors
from tfquiver.reader.batch import Batch


def as_tensors(batch: Batch) -> dict[str, torch.Tensor]:
    """`data` (uint8, shape [bytes]): the records one after the other; record i is `data[offsets[i]:offsets[i + 1]]`
    (`offsets`: int64, shape [records + 1]). Tensors go from a worker to the trainer, and into pinned memory, without
    being pickled: for large records the fastest there is."""
    return {"data": torch.from_numpy(batch.copied()), "offsets": torch.from_numpy(np.array(batch.offsets))}


@dataclass(frozen=True, slots=True)
class Elements:
    """Arguments of QuiverDataset. Raises InvalidArgumentError for those that do not go together."""

    batched: bool
    decode: Callable[[memoryview], Any] | None
    decode_batch: Callable[[Batch], Any] | None
    collate: Callable[[list[Any]], Any] | None

    def __post_init__(self) -> None:
        for name in ("decode", "decode_batch", "collate"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise errors.InvalidArgumentError(f"{name}={value!r}: must be a function")
        if self.decode_batch and (self.decode or self.collate):
            raise errors.InvalidArgumentError("decode_batch= is instead of decode= and collate=")
        if (self.decode_batch or self.collate) and not self.batched:
            raise errors.InvalidArgumentError("decode_batch= and collate= need batch_size=")

    def __call__(self, batch: Batch) -> Any:
        if self.decode_batch:
            return self.decode_batch(batch)
        decoded = batch.to_list() if self.decode is None else [self.decode(record) for record in batch]
        if not self.batched:
            return decoded[0]
        if self.collate:
            return self.collate(decoded)
        return decoded if self.decode is None else torch.utils.data.default_collate(decoded)
