"""Below what jobs are not to be slowed down by probes: what somebody says that they are to read. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import JobKey

# Of a pin, which buckets keep to within 5 % and windows cut as they come: who is held back by nothing but its own pin
# reads as much, and is not starving.
_OF_A_PIN = 0.9


def floors(pins_bytes_per_s: Mapping[str, float], reads_bytes_per_s: Mapping[JobKey, float]) -> dict[JobKey, float]:
    """Bytes/s, of those jobs that have a pin. It is for all that a job reads: each of its data sets has a part of the
    floor, as it has of what the job reads now."""
    together, readings = dict[str, float](), dict[str, int]()
    for (job, _), rate in reads_bytes_per_s.items():
        together[job], readings[job] = together.get(job, 0.0) + rate, readings.get(job, 0) + 1
    return {
        (job, digest_id): _OF_A_PIN
        * pins_bytes_per_s[job]
        * (rate / together[job] if together[job] else 1 / readings[job])
        for (job, digest_id), rate in reads_bytes_per_s.items()
        if job in pins_bytes_per_s
    }
