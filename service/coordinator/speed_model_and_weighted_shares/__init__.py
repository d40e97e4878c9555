"""What cache and bandwidth make of a job's speed: SiloD's closed form, what jobs take from the store when none waits,
max-min filling. Pure.

Called by all policies, and by the planner around them. Knows what a policy sees and says (`policies.pins`,
`views_and_plans`) and never one policy; never decides who gets what.
"""
