"""What every way of parsing has to say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import tensorflow as tf


class Parsing(ABC):
    """Between what the user gave as `parse=`, what the op is told, and what elements are."""

    @property
    @abstractmethod
    def fixed(self) -> bool:
        """Whether all is dense, and of the same shape in every record."""

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """The op's last input, and its attributes."""

    @abstractmethod
    def emitted(self, batch: int | None) -> Any:
        """The spec of the op's tensors, nested as the source's own elements are."""

    @abstractmethod
    def put_together(self, made: tf.data.Dataset, with_position: bool) -> tf.data.Dataset:
        """`made`, of what the op emits, as a data set of elements; with positions: of pairs of those and these."""
