"""What all sampling schemes have in common (samplings.py): what an order is told from by, before any is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfquiver import errors
from tfquiver.users_arguments_checked.checks import check_integer, size
from tfquiver.users_arguments_checked.option_groups import OptionGroup

if TYPE_CHECKING:
    from tfquiver.users_arguments_checked.user_weights import UserWeights

_MAX_SEED = (1 << 63) - 1
_MOST_ARGUMENT_BYTES = 1 << 20

Arguments = dict[str, object]  # as JSON takes them


class Sampled(OptionGroup):
    """Of all schemes."""

    __slots__ = ()
    shuffle_bytes: int | str
    seed: int

    def asked(self) -> tuple[str, Arguments]:
        """The scheme's name and its arguments."""
        raise NotImplementedError

    def record_weights(self) -> UserWeights | None:
        """What the scheme draws records by, if the user gave any."""
        return None

    def told_apart_by(self) -> str:
        """All that it draws by but the seed."""
        return self.arguments_text()

    def arguments_text(self) -> str:
        """Raises InvalidArgumentError: they cannot be sent."""
        name, arguments = self.asked()
        try:
            text = json.dumps(arguments, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise errors.InvalidArgumentError(
                f"order: the arguments of {name} are not plain values: {error}"
            ) from error
        if (size_bytes := len(text.encode())) > _MOST_ARGUMENT_BYTES:
            raise errors.InvalidArgumentError(
                f"order: the arguments of {name} take {size_bytes} bytes; the limit is {_MOST_ARGUMENT_BYTES}"
            )
        return text

    def _check_common(self) -> None:
        size("shuffle_bytes", self.shuffle_bytes, 0)
        check_integer("seed", self.seed, 0, _MAX_SEED)
        self.arguments_text()
