"""How long the pipeline behind one reader waits for records, by what the reader reports. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tfquiver.messages_and_binary_formats import reader_frames as frames

_LATE_S = 5.0  # a report may have been so long under way


class ReaderStalls:
    """Reports come about once a second, and say how long it has waited in all. The waits between two of them are told
    as one; one that goes on, so that nothing was taken meanwhile, is told as a whole when it has ended. Who takes
    records and waits for none is told of (0); who does not ask is not.

    Args:
      observe: told seconds.
      clock: what a reader says of itself is believed as far as so much time has passed here: since this was made, too,
        for a reader that has come from another node says what it had waited there.
    """

    def __init__(self, observe: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._observe, self._clock = observe, clock
        self._last = frames.Report(0, 0, 0, 0)
        self._heard_s = clock()
        self._goes_on_s = 0.0

    def heard(self, report: frames.Report) -> None:
        last, since_s, now_s = self._last, self._heard_s, self._clock()
        if report.records < last.records or report.waited_us < last.waited_us:
            return
        self._last, self._heard_s = report, now_s
        self._goes_on_s += min((report.waited_us - last.waited_us) / 1e6, now_s - since_s + _LATE_S)
        if report.records > last.records:
            self._tell()

    def gone(self) -> None:
        """It does not come again here."""
        if self._goes_on_s:
            self._tell()

    def _tell(self) -> None:
        stalled_s, self._goes_on_s = self._goes_on_s, 0.0
        self._observe(stalled_s)
