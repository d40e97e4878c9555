"""What the user gave as `parse=`, checked."""

from __future__ import annotations

from collections.abc import Mapping

from tfquiver import errors
from tfquiver.tensorflow_client.parsing.examples import ExampleParsing
from tfquiver.tensorflow_client.parsing.fixed_length import FixedParsing
from tfquiver.tensorflow_client.parsing.parsing import Parsing
from tfquiver.users_arguments_checked.fixed_length import FixedLength


def parsing_of(parse: object, batch_size: int) -> Parsing:
    """Raises InvalidArgumentError naming what cannot be. `batch_size` 0: none was given."""
    fields = isinstance(parse, FixedLength)
    if not fields:
        if not isinstance(parse, Mapping) or not parse or not all(isinstance(key, str) for key in parse):
            raise errors.InvalidArgumentError(
                f"parse={parse!r}: must be a mapping from keys to features of tf.io, and not empty; or a "
                "tfquiver.FixedLength(...), or a mapping from keys to these"
            )
        kinds = {isinstance(one, FixedLength) for one in parse.values()}
        if len(kinds) > 1:
            raise errors.InvalidArgumentError(
                f"parse={parse!r}: records are either examples with features of tf.io, or tfquiver.FixedLength fields"
            )
        fields = kinds == {True}
    if not batch_size:
        raise errors.InvalidArgumentError("parse= needs batch_size=: records are parsed a batch at a time")
    return FixedParsing(parse) if fields else ExampleParsing(parse)  # type: ignore[arg-type]
