"""Keeps nothing but what people pinned: what the cache is measured against."""

from __future__ import annotations

from tfquiver.service.coordinator.policies.pins import free, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan


class NonePolicy:
    probing = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        reasons = {dataset.name: "none: this policy keeps nothing" for dataset in free(view)}
        return Plan(pinned(view), remote_pins(view), reasons | pin_reasons(view))
