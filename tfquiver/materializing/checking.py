"""Whether a function still makes what is kept: some shards computed again, and compared by their hashes."""

from __future__ import annotations

import random
import threading

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.materializing.derivation import Derivation
from tfquiver.materializing.making import Making


def check_sample(making: Making, derivation: Derivation, derived: Digest, most: int) -> None:
    """Raises StaleDigestError naming the shard."""
    never = threading.Event()
    rows = random.SystemRandom().sample(range(making.digest.num_shards), min(most, making.digest.num_shards))
    for row in rows:
        made = [shard.hash for shard in making.make(row, never.wait)]
        kept = [derived.hashes[shard].tobytes() for shard in derivation.parts(row)]
        if made != kept:
            ref = making.digest.shard(row)
            raise errors.StaleDigestError(
                f"{derived.name}: the function makes something else of shard {row} ({ref.file.uri} at {ref.offset}) "
                "than what is kept: what it computes is not told by its graph alone; give another version="
            )
    making.close_mine()
