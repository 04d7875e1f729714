"""The Dask cluster, in real processes: found, started, checked; objects that it holds."""

import os
import signal
import socket
import sys
import time
import types

import numpy as np
import pytest

import masgrad as mg
from masgrad.distributed import cluster as clusters
from masgrad.distributed.cluster import cluster
from masgrad.distributed.held import MOST_HELD, ship
from masgrad.errors import ClusterError, InputError, InputTypeError, MissingPackageError


@pytest.fixture(scope="module")
def client():
    with cluster(workers=2) as found:
        yield found


def environment(name):
    import os

    return os.environ.get(name)


def test_local_workers_have_one_thread_each_and_keep_their_heap(client):
    assert list(client.nthreads().values()) == [1, 1]
    for name, value in clusters.ENVIRONMENT.items():
        assert set(client.run(environment, name).values()) == {value}


@pytest.mark.filterwarnings("error")
def test_two_clusters_at_once_are_no_trouble(client):
    with cluster(workers=1) as other:
        assert other.submit(sum, [1, 2]).result() == client.submit(sum, [1, 2]).result() == 3


def test_a_given_client_is_used_and_stays_open(client):
    with cluster(client) as found:
        assert found is client
    assert client.status == "running"


def test_an_address_is_connected_to_and_left_again(client):
    with cluster(scheduler=client.scheduler.address) as found:
        assert found is not client and len(found.nthreads()) == 2
    assert found.status == "closed" and client.status == "running"


def test_a_closed_client_is_refused(client):
    with cluster(scheduler=client.scheduler.address) as found:
        pass
    with pytest.raises(ClusterError, match="closed; connect a new one"), cluster(found):
        pass


@pytest.mark.parametrize("answers", [False, True])
def test_a_scheduler_that_does_not_answer_is_an_error_within_seconds(answers, monkeypatch):
    """Nobody listens at the port, or somebody who says nothing."""
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 1.0)
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        if answers:
            port.listen()
        address, start = f"tcp://127.0.0.1:{port.getsockname()[1]}", time.perf_counter()
        with pytest.raises(ClusterError, match=f"{address}.*not answer.*Timeout.*check that"):
            cluster(scheduler=address).__enter__()
        assert time.perf_counter() - start < 5


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:1", "127.0.0.1:8786"])
def test_text_that_is_no_address_is_refused_at_once(address):
    with pytest.raises(InputError, match=r"no address of a Dask scheduler.*tcp://"):
        cluster(scheduler=address).__enter__()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(address, monkeypatch):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 1.0)
    with pytest.raises(ClusterError, match="does not answer"):
        cluster(scheduler=address).__enter__()


def test_the_address_of_a_worker_is_not_that_of_a_scheduler(client):
    with pytest.raises(ClusterError, match="a Worker answers"):
        cluster(scheduler=next(iter(client.nthreads()))).__enter__()


def test_arguments_that_are_no_cluster_are_refused(client):
    with pytest.raises(InputTypeError, match="Client is needed"):
        cluster(client="tcp://10.0.0.1:8786").__enter__()
    with pytest.raises(InputTypeError, match="an address"):
        cluster(scheduler=8786).__enter__()
    with pytest.raises(InputError, match="both given"):
        cluster(client, client.scheduler.address).__enter__()
    with pytest.raises(InputError, match="workers=2"):
        cluster(client, workers=2).__enter__()
    with pytest.raises(InputError, match="workers=0"):
        cluster(workers=0).__enter__()


def test_machines_of_another_version_are_named(client, monkeypatch):
    monkeypatch.setattr("masgrad.version.__version__", "99.0")
    wanted = r"the worker tcp\S* has masgrad \d.*and this process masgrad 99.0.*same versions"
    with pytest.raises(ClusterError, match=wanted):
        cluster(client).__enter__()


def test_machines_without_masgrad_are_named(client, monkeypatch):
    """A function that their masgrad does not have stands for a package that they do not have."""
    absent = types.ModuleType("masgrad_absent")
    exec("def versions():\n    return {}", absent.__dict__)
    monkeypatch.setitem(sys.modules, "masgrad_absent", absent)
    monkeypatch.setattr(clusters, "versions", absent.__dict__["versions"])
    with pytest.raises(ClusterError, match=r"the worker \S* has no masgrad .*ModuleNotFoundError"):
        cluster(client).__enter__()


def test_a_scheduler_without_workers_is_refused(monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(clusters, "WORKER_SECONDS", 0.5)
    asked = {"n_workers": 0, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(**asked) as local,
        Client(local, set_as_default=False) as found,
        pytest.raises(ClusterError, match=r"no workers after .*dask worker"),
    ):
        cluster(found).__enter__()


def test_without_dask_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError, match=r'pip install "masgrad\[dask\]"') as caught:
        cluster().__enter__()
    assert isinstance(caught.value, ImportError)


def unpickled(sent, x):
    """The process and the loss's identity there, with its value."""
    import os

    loss = sent.here()
    return os.getpid(), id(loss), float(loss(x))


def test_a_function_that_travels_by_value_is_one_object_on_each_worker(client):
    shift = np.pi
    sent = ship(lambda x: x + shift)
    tasks = [client.submit(unpickled, sent, float(k), pure=False) for k in range(20)]
    found = client.gather(tasks)
    assert [value for *_, value in found] == [k + np.pi for k in range(20)]
    processes = {process for process, *_ in found}
    assert len({(process, loss) for process, loss, _ in found}) == len(processes) == 2


def test_a_process_keeps_the_objects_used_last():
    first = ship(("a", "tuple"))
    kept = first.here()
    for k in range(MOST_HELD - 1):
        ship((k,)).here()
    assert first.here() is kept
    for k in range(MOST_HELD):
        ship((k, "other")).here()
    assert first.here() is not kept and first.here() == kept


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        ship(socket.socket())


def test_a_worker_unpickles_models_that_compare_equal():
    for model in (mg.Logistic(), mg.CustomLoss(np.dot, 2)):
        assert ship(model).here() == model


def test_local_workers_are_not_interrupted_by_ctrl_c(client):
    """A terminal sends it to every process of its group."""
    processes = client.run(os.getpid)
    for process in processes.values():
        os.kill(process, signal.SIGINT)
    time.sleep(0.2)
    assert client.run(os.getpid) == processes
