"""Which policy decides: what people chose and the command line says (`chosen`: pure), made beside all else, since
another package's may never come to an end (`making`, `asking`), or end the process (`ends`); and who decides until the
one that was chosen has made a plan (`choosing`).

Called by the planner's rounds and by the coordinator at its start. Never asks a policy for anything but its first plan.
"""
