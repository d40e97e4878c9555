"""What policies have in common in the views that they see and the plans that they make: by column, where thousands are
counted with at once; what pins leave of the room; reasons, written when somebody asks; what neither may be (`check`).
Pure.

Called by policies, the planner around them, `speed_model` and the simulator. Never decides who gets what.
"""
