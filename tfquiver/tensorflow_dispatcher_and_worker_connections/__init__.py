"""TensorFlow's own dispatcher and workers, as those see them who watch them: what the dispatcher says of its workers
without published descriptions (`worker_list`; protocol buffers by hand: `proto_wire`), whether it has kept a data set
(`kept_dataset`), the trainer's watch over its connections to them (`worker_connections`), and connections to machines
that are gone without a word, which end (`silent_machines`; which of this process's are theirs: `remote_ends`).

Called by `tensorflow_client` and by the dispatcher's server. Never imports TensorFlow, and never decides what is done
without a worker.
"""
