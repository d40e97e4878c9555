"""What a client wants of the order of its epochs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import order_seed


@dataclass(frozen=True, slots=True)
class Wish:
    """How a session is to hand its shards out. `seed` 0: any."""

    seed: int = 0
    homogeneous: bool = False
    order: types_pb2.SessionOrder | None = None

    def fixed(self, epoch: int) -> types_pb2.SessionOrder | None:
        """The order with all that it depends on. Raises InvalidArgumentError."""
        order = self.order
        if order is None or not (order.deterministic or order.files):
            return order
        if self.homogeneous:
            raise errors.InvalidArgumentError("homogeneous: a deterministic order cannot be homogeneous")
        if order.files:
            if order.deterministic:
                raise errors.InvalidArgumentError("files: not with deterministic, which is another order")
            return order
        fixed = types_pb2.SessionOrder()
        fixed.CopyFrom(order)
        if not fixed.order_seed:
            if not self.seed:
                raise errors.InvalidArgumentError("seed: a deterministic order needs one")
            fixed.order_seed = order_seed(self.seed, epoch)
        return fixed
