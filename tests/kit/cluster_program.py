"""A program that waits for a handler on a cluster: `python -m tests.kit.cluster_program ADDRESS NAME`."""

from __future__ import annotations

import sys

from fxai.distributed import Cluster, distribute
from fxai.effects import fx
from tests.kit import cluster_tools

if __name__ == "__main__":
    address, name = sys.argv[1:]
    live = distribute(cluster_tools.desk, "tests.kit.cluster_tools:desk").provide(Cluster.layer(address))
    fx.run(cluster_tools.kit.call("forever", name).provide(live))
