"""What was decided, when, why, and what was refused: what differs between two plans, as decisions; decisions as records
of the commit log; the last of them. Pure.

Called by the planner, by `replanning` and by the simulator. Never decides anything itself.
"""
