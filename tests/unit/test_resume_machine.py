"""As test_session_machine, with clients that die, or go back, and are followed by others of their job: what counts as
delivered has been consumed, what does not is read again, and the dead ones' readers disturb nobody."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import precondition, rule

from tests.unit.resume_world import ResumeWorld
from tests.unit.test_session_machine import PICK, SessionMachine


class ResumeMachine(SessionMachine):
    world: ResumeWorld

    def new_world(self, shards: int, seed: int, rotation: str) -> ResumeWorld:
        return ResumeWorld(shards, seed, rotation)

    @precondition(lambda self: self.tickets)
    @rule(back=st.booleans(), number=PICK)
    def a_client_resumes(self, back: bool, number: int) -> None:
        saved = list(self.world.saved)
        session_id = self.world.resume(saved[number % len(saved)] if back and saved else "")
        self.tickets = [t for t in self.tickets if not self.world.sessions.session(t).taken_over]
        if session_id:
            self.tickets.append(session_id)

    @precondition(lambda self: self.tickets)
    @rule(number=PICK)
    def a_client_saves(self, number: int) -> None:
        self.world.save(self.tickets[number % len(self.tickets)])

    @precondition(lambda self: self.has_readers())
    @rule(number=PICK)
    def a_reader_leaves_early(self, number: int) -> None:
        self.world.leave_early(self.pick(number))

    @precondition(lambda self: self.world.left)
    @rule(number=PICK)
    def a_leftover_acts(self, number: int) -> None:
        self.world.leftover_acts(list(self.world.left)[number % len(self.world.left)])


TestResumeMachine = ResumeMachine.TestCase
TestResumeMachine.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
