"""The planner around a policy: what it proposes is checked, weighed against the moves it takes, kept, explained. Pure.

Called by the coordinator off its event loop, and by the simulator. Never applies a plan, and never gives up the last
good one for a policy that fails.
"""
