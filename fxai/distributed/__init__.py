"""Level 6. Distributed: handlers on the workers of a cluster, with the program and its tools as they are.

A cluster is one of Dask, or a work queue in a database, which survives the loss of everybody. Neither is imported
before it is used.
"""

from __future__ import annotations

from fxai.distributed.cluster import Cluster, serve_queue, serve_worker
from fxai.distributed.distribution import Placement, distribute
from fxai.distributed.engine import ClusterUnavailable
from fxai.distributed.envelope import WorkerDefectError
from fxai.distributed.worker_host import TargetError, WorkerOptions

__all__ = [
    "Cluster",
    "ClusterUnavailable",
    "Placement",
    "TargetError",
    "WorkerDefectError",
    "WorkerOptions",
    "distribute",
    "serve_queue",
    "serve_worker",
]
