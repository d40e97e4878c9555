"""`tfquiver-scheduler-extender`: tells Kubernetes' scheduler on which machines a pod's data set is (Hoard's R3).

Called by kube-scheduler over HTTP, with the published JSON; asks the coordinator. Advice: when it does not know, or in
time cannot find out, every machine is as good as before. Never keeps a pod from being scheduled, reads no data.
"""
