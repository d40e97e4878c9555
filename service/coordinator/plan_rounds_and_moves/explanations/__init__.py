"""Why a job or data set has what it has, what more would bring it, and what was known last of jobs that read no more
(`explain`, `supported`, `of_finished`: pure). On the coordinator's event loop `explaining` looks for whom somebody asks
about.

Called by `replanning`, for `tfquiver explain` and everything else that shows it. Never changes a plan: those that are
tried for an answer are in force nowhere.
"""
