"""Fakes of nodes and jobs for `coordinator_thousand`: they speak gRPC to a real coordinator as real ones do, and hold,
load and read nothing but numbers.

`scale`: how much there is of everything. `holdings`: what nodes hold, obeying orders. `nodes`: heartbeats and orders.
`jobs`: leases and acks at a job's pace. `calls`: how nodes make those that they make all the time.
`client`: a process of them, told what to do through a pipe.
"""
