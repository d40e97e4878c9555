"""How long the rates of a moment hold. Pure."""

from __future__ import annotations

from math import inf

import numpy as np

from tfquiver.service.sim.cache_contents.contents import COOPERATIVE, LRU, NONE, UNIFORM, Contents
from tfquiver.service.sim.cache_contents.lru_window import LruWindow
from tfquiver.service.sim.job_queue.jobs import Jobs
from tfquiver.service.sim.jobs_as_flows.rates import Rates
from tfquiver.service.sim.store_bandwidth.sharing import Bools, Floats, Ints

PART_A_STEP = 1 / 64  # of what several jobs still have to bring in, or of what a curriculum samples
_SAME = 1e-9
_LEAST_STEP = 1e-6  # of an epoch
_LEAST_SAMPLED = 1e-4  # of an epoch: where a curriculum samples next to nothing


def next_change_s(
    jobs: Jobs, contents: Contents, window: LruWindow, rates: Rates, now: float, pool_bytes: float, shared: bool
) -> float:
    running = jobs.running
    moving = rates.read > 0
    running, read, fetched = running[moving], rates.read[moving], rates.fetched[moving]
    if not running.size:
        return inf
    datasets, sizes, done = jobs.dataset[running], jobs.size[running], jobs.done[running]
    waits = [float(((jobs.total[running] - done) / read).min())]
    mode = contents.mode[datasets]
    planned = (mode == UNIFORM) | (mode == COOPERATIVE)
    if shared or planned.any():
        waits += _planned_change_s(jobs, contents, window, running, read, fetched, planned, pool_bytes, shared)
    if jobs.some_irregular and (paced := jobs.irregular[running]).any():
        sampled = np.maximum(jobs.parts[running] * PART_A_STEP, _LEAST_SAMPLED)
        waits.append(float((sampled * sizes / read)[paced].min()))
        waits.append(float((window.curricula.to_step(running[paced], done[paced]) / read[paced]).min()))
    if (mode == LRU).any():
        waits.append(_lru_change_s(jobs, contents, window, running, read, fetched, now, pool_bytes))
    return max(0.0, min(waits))


def _planned_change_s(
    jobs: Jobs, contents: Contents, window: LruWindow, running: Ints, read: Floats, fetched: Floats, planned: Bools,
    pool_bytes: float, shared: bool,
) -> list[float]:  # fmt: skip
    datasets, sizes, done, waits = jobs.dataset[running], jobs.size[running], jobs.done[running], list[float]()
    mode, resident, allocated = contents.mode[datasets], contents.resident[datasets], contents.allocated[datasets]
    room = np.where(mode == LRU, 0.0 if window.full else pool_bytes, allocated)
    filling = (mode != NONE) & (resident < room * (1 - _SAME)) & (fetched > 0)
    more = planned & (abs(resident / sizes - contents.effective[running]) > _SAME)
    finds_more = ((filling & planned) | more) & ~jobs.irregular[running]
    if finds_more.any():
        waits.append(float(((sizes - done % sizes) / read)[finds_more].min()))
    if shared and filling.any():
        brought = np.bincount(datasets, fetched, len(contents.sizes))[datasets]
        several = filling & (brought > fetched * (1 + _SAME))
        if several.any():
            # What is less than a step of all changes what is found by less than that.
            absent = np.maximum(sizes - resident, sizes * PART_A_STEP)
            waits.append(float((absent[several] / brought[several]).min()) * PART_A_STEP)
    return waits


def _lru_change_s(
    jobs: Jobs, contents: Contents, window: LruWindow, running: Ints, read: Floats, fetched: Floats,
    now: float, pool_bytes: float,
) -> float:  # fmt: skip
    waits = [window.step_s(now, float((jobs.size[running] / read).min()))]
    lru = contents.mode[jobs.dataset[running]] == LRU
    counted = np.zeros(len(running), bool)
    counted[lru] = window.epoch_counts(running[lru], jobs.done)
    if counted.any():
        sizes, done = jobs.size[running], jobs.done[running]
        waits.append(float(((sizes - done % sizes) / read)[counted].min()))
    brought = float(fetched[lru].sum())
    if not window.full and brought > 0:
        free = pool_bytes - float(contents.resident[contents.mode == LRU].sum())
        epoch_s = float((jobs.size[running] / read).min())
        waits.append(max(free / brought, epoch_s * _LEAST_STEP))  # time goes on, however small the cache is
    return min(waits)
