"""A comparison on a Ray cluster of two nodes, one of which is killed: `python on_ray.py FOLDER OPTIONS`.

Prints the runs in the order in which they began; one that was lost with its node begins twice.
"""

import json
import sys

from ray.cluster_utils import Cluster

from hf_longseq.comparison import compare

SOON_MISSED = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}  # a lost node, in 3 seconds of 15


def main(folder: str, options: str) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": SOON_MISSED})
    first, _ = cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    began: list[str] = []

    def listener(label, step, total, text):
        if text and "micro batch" in text:
            began.append(label)
            if len(began) == 2:  # each node has a run
                cluster.remove_node(first, allow_graceful=False)

    compare("listops-tiny", folder, ray_address=cluster.address, listener=listener, **json.loads(options))
    print(json.dumps(began))
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
