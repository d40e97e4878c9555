"""What experiments are made of: a slow store, a cluster, jobs whose training steps are slept, samples over time, plots.

with Remote.start(base, bytes_per_s=8 << 20) as remote:
    data = remote.add("images", files=8, records_a_file=1600, record_bytes=4080, shard_records=16)
    with World(base / "run", remote, quota_bytes=data.disk_bytes * 2) as world:
        world.set_cache(data, "cooperative", share=0.2)
        specs = [JobSpec("a", step_s=0.05), JobSpec("b", step_s=0.05)]
        runs = Jobs(specs, lambda spec: world.dataset(data, spec), data).start().join(deadline_s=300)
    assert all(run.every_record_once for run in runs)

The jobs are threads of this process: a process with TensorFlow takes seconds of a core and 400 MB to start. Everything
else is a process of its own, as in production, and all the records come through the op, the node and the coordinator.
"""
