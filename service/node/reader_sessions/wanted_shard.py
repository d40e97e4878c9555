"""A shard that a reader has been leased and that is not here yet: for how long it is tried, and when the reader is told
why; and those that it cannot have. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver import errors

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
NOBODY_S = 10.0  # a process that computes derived data may be about to connect again
TOLD_AGAIN_S, _MOST_TOLD = 60.0, 3
RETRYABLE = (errors.UnavailableError, errors.DeadlineError, errors.ResourceExhaustedError, errors.CancelledError_)


@dataclass(slots=True)
class WantedShard:
    owner: str
    since_s: float
    _pause_s: float = FIRST_PAUSE_S
    _nobody_since_s: float | None = None  # so long nobody could compute it, wherever asked

    def failed(self, error: errors.TfquiverError, now_s: float, deadline_s: float) -> float | None:
        """After how many seconds it is tried again; None: it is given up.

        Transient errors are tried again for `deadline_s`. That nobody could compute it is believed where that has been
        so for NOBODY_S.
        """
        late = now_s - self.since_s >= deadline_s
        if not isinstance(error, errors.NobodyComputesError):
            self._nobody_since_s = None
        elif error.everywhere:  # else it says nothing new
            if self._nobody_since_s is None:
                self._nobody_since_s = now_s
            late |= now_s - self._nobody_since_s >= NOBODY_S
        if late or not isinstance(error, RETRYABLE):
            return None
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, MAX_PAUSE_S)
        return pause_s


class RetriedFailures:
    """Of what one reader waits for: a store that is away fails each of its shards."""

    def __init__(self) -> None:
        self._said_s = dict[str, float]()

    def is_news(self, error: errors.TfquiverError, now_s: float) -> bool:
        """Whether its reader is to be told: in the same words not again within TOLD_AGAIN_S, and of many files that
        fail alike the first ones."""
        self._said_s = {words: at_s for words, at_s in self._said_s.items() if now_s - at_s < TOLD_AGAIN_S}
        if str(error) in self._said_s or len(self._said_s) >= _MOST_TOLD:
            return False
        self._said_s[str(error)] = now_s
        return True


class FailedShards(dict[int, errors.TfquiverError]):
    """Those that their reader cannot have, each with its error."""

    def __init__(self) -> None:
        super().__init__()
        self._said = set[str]()

    def first_so(self, shard: int, error: errors.TfquiverError) -> bool:
        """It has failed; whether as the first in these words, which of a file that has changed all its shards do."""
        self[shard] = error
        is_new = str(error) not in self._said
        self._said.add(str(error))
        return is_new
