"""What `tfquiver plan` says of a running cluster's store does not contradict what `tfquiver status` shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver.cli.main import main
from tfquiver.cli.sim_plan_trace_commands import plan_now
from tfquiver.cli.sim_plan_trace_commands.reading_jobs import Cluster
from tfquiver.service.sim.workloads_and_recordings.recording import WAITS
from tfquiver.service.sim.workloads_and_recordings.seen import Dataset, Seen

DATASET = Dataset("ab", "d", 10, 10, 1, 1)


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        ((0.37, 0.1), "no job waits for data 50% of its time or more (now 37% at most): less may be buffers"),
        ((0.52, 0.1), "jobs wait (now 52% at most), and nothing comes from the store meanwhile"),
        ((), "no job waits for data 50% of its time or more (now 0% at most)"),
    ],
)
def test_how_long_jobs_wait_is_told(waited: tuple[float, ...], said: str) -> None:
    seen = tuple(Seen(f"j{at}", DATASET, reads=True, stall_share=share) for at, share in enumerate(waited))
    gone = Seen("gone", DATASET, reads=False, stall_share=0.9)
    assert plan_now._why_no_limit(Cluster((), (*seen, gone))).startswith(said)


def test_help_says_of_the_stores_rate_what_the_guide_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    guide = " ".join((Path(__file__).parents[2] / "docs/guide/larger-than-cache.md").read_text().split())
    for words in (
        "store's rate is what it gives now, if a job waits for data half of its time or more",
        "without limit",
    ):
        assert words in said and words in guide
    assert WAITS == 0.5
    assert (
        "--store RATE a second, for example 200MB; may be repeated; default: the scenario's, or as said above" in said
    )
