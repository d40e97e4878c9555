"""Who gets how much cache and how much of the store's bandwidth: one policy a file, chosen by name. Pure. What pins
take out beforehand is in `pins`, what a policy sees and says in `views_and_plans`, what cache and bandwidth are worth
to a job in `speed_model_and_weighted_shares`.

Called by the coordinator's planner off its event loop, and by the simulator, with the same objects. A policy sees a
view and returns a plan; it never remembers what cannot be seen in the next view, never waits, never applies anything.
"""
