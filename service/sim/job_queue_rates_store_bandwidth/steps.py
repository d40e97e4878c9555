"""How long the rates of a moment hold. Pure."""

from __future__ import annotations

from math import inf

import numpy as np

from tfquiver.service.sim.cache_contents.contents import COOPERATIVE, LRU, NONE, UNIFORM, Contents
from tfquiver.service.sim.cache_contents.lru_window import LruWindow
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs
from tfquiver.service.sim.job_queue_rates_store_bandwidth.rates import Rates
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints, some

PART_A_STEP = 1 / 64  # of what several jobs still have to bring in, or of what a curriculum samples
_SAME = 1e-9
_LEAST_STEP = 1e-6  # of an epoch
_LEAST_SAMPLED = 1e-4  # of an epoch: where a curriculum samples next to nothing


def next_change_s(
    jobs: Jobs, contents: Contents, window: LruWindow, rates: Rates, now: float, pool_bytes: float, shared: bool
) -> float:
    own, read, fetched = jobs.of_running, rates.read, rates.fetched
    running, datasets, sizes, total = own.numbers, own.dataset, own.size, own.total
    moving = read > 0
    if stopped := np.count_nonzero(moving) < len(moving):
        read, fetched = read[moving], fetched[moving]
        running, datasets, sizes, total = running[moving], datasets[moving], sizes[moving], total[moving]
    if not running.size:
        return inf
    done = jobs.done[running]
    waits = [float(((total - done) / read).min())]
    if shared or contents.some_planned:
        mode = contents.mode[datasets]
        planned = (mode == UNIFORM) | (mode == COOPERATIVE)
        if shared or some(planned):
            waits += _planned_change_s(jobs, contents, window, running, read, fetched, planned, pool_bytes, shared)
    if jobs.some_irregular and (paced := jobs.irregular[running]).any():
        sampled = np.maximum(jobs.parts[running] * PART_A_STEP, _LEAST_SAMPLED)
        waits.append(float((sampled * sizes / read)[paced].min()))
        waits.append(float((window.curricula.to_step(running[paced], done[paced]) / read[paced]).min()))
    lru, under = contents.under_lru(own.dataset)
    if under:
        counted = window.epoch_counts(now, own.numbers, jobs.done) & lru
        if stopped:
            lru, counted = lru[moving], counted[moving]
        if some(counted):
            waits.append(float(_to_epoch_s(sizes[counted], done[counted], read[counted]).min()))
        if some(lru):
            waits.append(_lru_change_s(contents, window, sizes, read, fetched, lru, now, pool_bytes))
    return max(0.0, min(waits))


def _to_epoch_s(sizes: Floats, done: Floats, read: Floats) -> Floats:
    return np.asarray((sizes - np.fmod(done, sizes)) / read)  # as %, in less time: none is negative


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
        waits.append(float(_to_epoch_s(sizes, done, read)[finds_more].min()))
    if shared and filling.any():
        brought = np.bincount(datasets, fetched, len(contents.sizes))[datasets]
        several = filling & (brought > fetched * (1 + _SAME))
        if several.any():
            # What is less than a step of all changes what is found by less than that.
            absent = np.maximum(sizes - resident, sizes * PART_A_STEP)
            waits.append(float((absent[several] / brought[several]).min()) * PART_A_STEP)
    return waits


def _lru_change_s(
    contents: Contents, window: LruWindow, sizes: Floats, read: Floats, fetched: Floats, lru: Bools, now: float,
    pool_bytes: float,
) -> float:  # fmt: skip
    epoch_s = float((sizes / read).min())
    wait_s = window.step_s(now, epoch_s)
    if not window.full and (brought := float(fetched[lru].sum())) > 0:
        free = pool_bytes - float(contents.resident[contents.mode == LRU].sum())
        wait_s = min(wait_s, max(free / brought, epoch_s * _LEAST_STEP))  # time goes on, however small the cache is
    return wait_s
