"""Saves what Ray's GCS knows about each worker before a test's cluster ends.

This is a pytest plugin that `ray_tests.py` loads. The table is the one that
`ray list workers --detail` prints. The plugin asks the GCS directly, because most tests run without
a dashboard.
"""

import functools
import json
import os
import time

import grpc
import pytest

import ray
import ray._private.worker
from ray._private.grpc_utils import init_grpc_channel
from ray._private.ray_constants import GLOBAL_GRPC_OPTIONS
from ray.cluster_utils import Cluster
from ray.core.generated.common_pb2 import WorkerExitType, WorkerType
from ray.core.generated.gcs_service_pb2 import GetAllWorkerInfoRequest
from ray.core.generated.gcs_service_pb2_grpc import WorkerInfoGcsServiceStub

# A raylet reports a worker's end within this many seconds.
REPORTED_S = 0.5


def write(**row):
    with open(os.environ["RAYTRACE_ROWS"], "a") as file:
        file.write(json.dumps(row) + "\n")


def ask(address):
    """Writes a row for each worker that this GCS knows to be dead."""
    channel = init_grpc_channel(address, GLOBAL_GRPC_OPTIONS)
    try:
        reply = WorkerInfoGcsServiceStub(channel).GetAllWorkerInfo(GetAllWorkerInfoRequest(), timeout=5)
    except grpc.RpcError:
        # The test has already ended the cluster.
        return
    finally:
        channel.close()
    for worker in reply.worker_table_data:
        if not worker.is_alive:
            write(
                worker=worker.worker_address.worker_id.hex(),
                role=WorkerType.Name(worker.worker_type),
                pid=worker.pid,
                exit_type=WorkerExitType.Name(worker.exit_type),
                exit_detail=worker.exit_detail,
                test=os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[-1].split(" ")[0],
            )


def ask_of_driver():
    node = ray._private.worker.global_worker.node
    if ray.is_initialized() and node is not None:
        ask(node.gcs_address)


def before(function, look):
    """Returns `function` with a call of `look` before it."""

    @functools.wraps(function)
    def wrapped(*arguments, **options):
        look(*arguments)
        return function(*arguments, **options)

    return wrapped


def ask_of_cluster(cluster, *_):
    if cluster.head_node is not None:
        # Leave time for workers that end because a driver ended.
        time.sleep(REPORTED_S)
        ask(cluster.gcs_address)


ray.shutdown = ray._private.worker.shutdown = before(ray.shutdown, lambda *_: ask_of_driver())
Cluster.shutdown = before(Cluster.shutdown, ask_of_cluster)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call():
    yield
    time.sleep(REPORTED_S)
    ask_of_driver()


def pytest_runtest_logreport(report):
    if report.when == "call" or report.skipped:
        write(outcome=report.outcome, name=report.nodeid.split("::")[-1])
