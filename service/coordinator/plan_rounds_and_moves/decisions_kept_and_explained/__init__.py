"""What was decided, when, why, and what was refused: what differs between two plans (`changes`), decisions as records
of the commit log (`decision`), the last of them (`history`). Why a job or data set has what it has, what more would
bring it, and what was known last of jobs that read no more (`explain`, `supported`, `of_finished`). Pure, but for
`explaining`, which looks on the coordinator's event loop for whom somebody asks about.

Called by the planner, by `replanning`, for `tfquiver explain` and everything else that shows it, and by the simulator.
Never changes a plan: those that are tried for an answer are in force nowhere.
"""
