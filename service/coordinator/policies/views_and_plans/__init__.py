"""The views that policies see and the plans that they make (`interface`), and what they have in common in them: by
column, where thousands are counted with at once; reasons, written when somebody asks; what neither may be (`check`).
Pure.

Called by policies, the planner around them, `speed_model_and_weighted_shares` and the simulator. Never decides who gets
what.
"""
