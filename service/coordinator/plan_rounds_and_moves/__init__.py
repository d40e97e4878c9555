"""The planner around a policy: what it proposes is checked, weighed against the moves it takes, kept, explained. Pure,
but for two that live on the coordinator's event loop: `replanning`, when it is asked anew and how what it says is
carried out, and `cluster_view`, what a policy is shown.

Called by the coordinator, the pure part off its event loop, and by the simulator. Never gives up the last good plan for
a policy that fails; none but `replanning` applies one.
"""
