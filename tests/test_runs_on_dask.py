"""Chains whose groups advance on the workers of a Dask cluster: real processes, real kills."""

import functools
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.chains.engine import workers
from masgrad.chains.groups import group_size
from masgrad.checkpoints import file
from masgrad.distributed.cluster import cluster, connected_client
from masgrad.distributed.held import _Held
from masgrad.distributed.tasks import Tasks
from masgrad.errors import CheckpointError, ClusterError, InputError, InterruptedWarning

KERNELS = (
    scenarios.KERNELS
    | scenarios.DIFFUSIONS
    | {
        "lagged": mg.masgrad(0.1, "running", root_every=10),
        "l1": mg.madprox(0.1, mg.L1(0.02)),
        "fixed": mg.madprox(0.1, mg.L1(0.02), "fixed"),
        "fista": mg.fista(0.5, mg.L1(0.02)),
    }
)
SHORT = ["schedule"]
CHAINS = 70  # two groups


@pytest.fixture(scope="module")
def client():
    with cluster(workers=2) as found:
        yield found


@pytest.fixture
def problem(rng):
    return mg.Logistic(), scenarios.regression(rng, "bernoulli")


@pytest.fixture
def short_tasks(monkeypatch):
    """Tasks of at most 15 steps of 36 chains with four parameters, however long they take."""
    monkeypatch.setattr(workers, "TASK_SECONDS", 1e6)
    monkeypatch.setattr(workers, "TASK_NUMBERS", 15 * 36 * 4)


def close(one, two):
    """Two traces or summaries are equal to 1e-10."""
    np.testing.assert_array_equal(one.steps, two.steps)
    np.testing.assert_array_equal(one.floored, two.floored)
    for a, b in [(one.final, two.final), (one.mean(), two.mean()), (one.cov(), two.cov())]:
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    if isinstance(one, mg.Trace):
        np.testing.assert_allclose(one.theta, two.theta, rtol=1e-10, atol=1e-10)
    assert one.diverged == two.diverged and one.note == two.note


def same(one, two):
    """They are equal in every bit, and so are the states that they end in."""
    close(one, two)
    np.testing.assert_array_equal(one.mean(), two.mean())
    leaves = [jax.tree.leaves(trace.ending.states) for trace in (one, two)]
    for a, b in zip(*leaves, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    if isinstance(one, mg.Trace):
        assert one.theta.tobytes() == two.theta.tobytes()


@pytest.mark.parametrize(
    "name", scenarios.short_of(SHORT, [name for name in KERNELS if name not in SHORT])
)
def test_paths_are_those_of_one_machine(name, problem, client, short_tasks):
    """And those of another Dask run, to the last bit, whatever the lengths of the tasks."""
    call = (KERNELS[name], *problem, np.linspace(-0.5, 1.0, 4))
    asked = {"steps": 60, "batch_size": None if name == "fista" else 20, "chains": CHAINS}
    here = mg.run(*call, **asked, seed=3)
    there = mg.run(*call, **asked, seed=3, engine="dask", client=client)
    close(there, here)
    same(mg.run(*call, **asked, seed=3, engine="dask", client=client), there)


@pytest.mark.parametrize("keep", ["paths", "summary"])
def test_runs_go_on_from_traces_of_either_engine(keep, problem, client):
    call = (mg.adagrad(0.1), *problem)
    asked = {"chains": CHAINS, "thin": 5, "keep": keep}
    whole = mg.run(*call, np.zeros(4), 200, **asked)
    part = mg.run(*call, np.zeros(4), 50, **asked, engine="dask", client=client)
    close(part, mg.run(*call, np.zeros(4), 50, **asked))
    close(mg.run(*call, steps=150, start_from=part, engine="dask", client=client), whole)
    close(mg.resume(part, *call, 150, engine="dask", client=client), whole)
    close(mg.resume(part, *call, 150), whole)


@pytest.mark.long
def test_simulators_moments_and_other_rows_travel(client, rng):
    X, y = scenarios.regression(rng)
    moments = mg.LeastSquaresMoments(4).update(X, y)
    normal = mg.Simulator(lambda key, n: jax.random.normal(key, (n, 2)))
    rows = {"x": rng.normal(size=(200, 2)), "k": rng.integers(0, 2, 200)}
    cases = [
        ((mg.sgd(0.1), mg.CustomLoss(scenarios.square, 2), normal, np.ones(2)), 25),
        ((mg.masgrad(0.1), mg.Linear(), moments, np.zeros(4)), None),
        ((mg.masgrad(0.1), mg.CustomLoss(scenarios.indexed_loss, 2), rows, np.zeros(2)), 25),
    ]
    for call, batch in cases:
        asked = {"steps": 20, "batch_size": batch, "chains": 5}  # one group: a worker is idle
        close(mg.run(*call, **asked, engine="dask", client=client), mg.run(*call, **asked))


def test_a_cluster_is_started_and_closed_for_the_user(problem, monkeypatch):
    import psutil

    def children():
        found = psutil.Process().children(recursive=True)
        return {child.pid for child in found if "resource_tracker" not in " ".join(child.cmdline())}

    before, seen = children(), []
    advance = workers.Workers.advance

    def watched(*args):
        seen.append(children() - before)
        return advance(*args)

    monkeypatch.setattr(workers.Workers, "advance", watched)
    call = (mg.sgd(0.1), *problem, np.zeros(4))
    close(mg.run(*call, steps=20, engine="dask"), mg.run(*call, steps=20))
    assert seen[0]
    assert children() == before


def test_an_address_is_enough_and_a_connected_client_is_found(problem, client):
    call = (mg.sgd(0.1), *problem, np.zeros(4))
    address = client.scheduler.address
    there = mg.run(*call, steps=20, engine="dask", scheduler=address)
    close(there, mg.run(*call, steps=20))
    with client.as_current():
        assert connected_client() is client
        close(mg.run(*call, steps=20, engine="dask"), there)
    assert client.status == "running"


# What is sent, and what is compiled.


def held():
    """Identities of the objects that a worker has unpickled."""
    return {digest: id(value) for digest, value in _Held.objects.items()}


def traces(folder):
    """How often each process has traced a loss that says so."""
    return {path.name: len(path.read_text()) for path in folder.iterdir()}


def test_a_loss_is_sent_and_compiled_once_for_each_worker(client, rng, tmp_path, short_tasks):
    """Tracing, which each compilation needs, appends a character to a file of the process."""

    def loss(theta, z):
        with open(tmp_path / str(os.getpid()), "a") as log:
            log.write("x")
        return 0.5 * jnp.sum((theta - z) ** 2)

    call = (mg.masgrad(0.1), mg.CustomLoss(loss, 2), rng.normal(size=(50, 2)), np.ones(2))
    on_dask = {"engine": "dask", "client": client, "chains": CHAINS}
    mg.run(*call, steps=1, batch_size=5, **on_dask)
    first = traces(tmp_path)
    assert len(first) == 3 and str(os.getpid()) in first  # this process, which checks the loss
    first.pop(str(os.getpid()))
    assert counted(mg.run, *call, steps=100, batch_size=5, **on_dask) == 4
    assert {name: count for name, count in traces(tmp_path).items() if name in first} == first


def counted(call, *args, **keywords):
    """The number of rounds of tasks of a run."""
    advance, seen = workers.Workers.advance, []

    def counting(*told):
        seen.append(1)
        return advance(*told)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers.Workers, "advance", counting)
        call(*args, **keywords)
    return len(seen)


SCRIPT = """
import json, os, sys, jax.numpy as jnp, numpy as np, masgrad as mg
from masgrad.chains.engine import workers
from masgrad.chains.groups import group_size
from masgrad.distributed.cluster import cluster, connected_client

workers.TASK_SECONDS, workers.TASK_NUMBERS = 1e6, 15 * 36 * 2

def loss(theta, z):
    with open(os.path.join(sys.argv[1], str(os.getpid())), "a") as log:
        log.write("x")
    return 0.5 * jnp.sum((theta - z) ** 2)

if __name__ == "__main__":
    rows = np.random.default_rng(0).normal(size=(50, 2))
    call = mg.sgd(0.1), mg.CustomLoss(loss, 2), rows, np.ones(2)
    with cluster(workers=1) as client:
        for steps in (1, 100):
            mg.run(*call, steps=steps, chains=70, engine="dask", client=client)
            [worker] = client.run(os.getpid).values()
            print(len(open(os.path.join(sys.argv[1], str(worker))).read()))
"""


@pytest.mark.long
def test_a_loss_of_main_is_compiled_once(tmp_path):
    script, logs = tmp_path / "script.py", tmp_path / "logs"
    script.write_text(SCRIPT)
    logs.mkdir()
    done = subprocess.run(
        [sys.executable, script, logs], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, later = done.stdout.split()
    assert first == later and int(first) > 0


def test_rows_are_sent_once_and_dropped_at_the_end(problem, client, monkeypatch, short_tasks):
    found, advance = [], workers.Workers.advance

    def looked(*args):
        done = advance(*args)
        found.append(client.run(held))
        return done

    monkeypatch.setattr(workers.Workers, "advance", looked)
    before = client.run(held)
    mg.run(mg.sgd(0.1), *problem, np.zeros(4), 60, chains=CHAINS, engine="dask", client=client)
    assert len(found) == 4 and found[0] == found[-1]
    after = client.run(held)
    for name in before:
        assert len(after[name]) == len(found[0][name]) - 1


# Workers that die, and runs that do.


def deadly(folder, *args):
    """The task; its worker is killed before it can tell the result, if a file says so."""
    done = workers._advance_group(*args)
    for order in folder.iterdir():
        try:
            order.unlink()
        except FileNotFoundError:
            continue  # the other worker has taken it
        os.kill(os.getpid(), signal.SIGKILL)
    return done


BOTH = pytest.param({2: ["a"], 4: ["a", "b"]}, marks=pytest.mark.long)


@pytest.mark.parametrize("kills", [{2: ["a"]}, BOTH])
def test_killed_workers_change_no_digit(kills, problem, client, monkeypatch, tmp_path, short_tasks):
    """One worker in the second round, and then both in the fourth, with all that was sent."""
    call = (mg.adagrad(0.1), *problem, np.zeros(4))
    asked = {"steps": 90, "chains": CHAINS, "engine": "dask", "client": client}
    whole = mg.run(*call, **asked)
    advance, rounds, before = workers.Workers.advance, [], set(client.run(os.getpid).values())

    def ordered(self, *args):
        rounds.append(1)
        for order in kills.get(len(rounds), []):
            (tmp_path / order).touch()
        return advance(self, *args)

    monkeypatch.setattr(workers, "_advance_group", functools.partial(deadly, tmp_path))
    monkeypatch.setattr(workers.Workers, "advance", ordered)
    same(mg.run(*call, **asked), whole)
    assert len(rounds) == 6 and not list(tmp_path.iterdir())
    client.wait_for_workers(1, timeout=60)  # a nanny whose worker died twice may give up
    assert len(before & set(client.run(os.getpid).values())) == 2 - len(kills)


class Killed(Exception):
    """Stands for a kill of the process that asks."""


@pytest.fixture
def killed(monkeypatch):
    """Make a run die in its round of this number."""
    advance, seen = workers.Workers.advance, []

    def dying(*args):
        seen.append(1)
        if len(seen) == dying.at:
            raise Killed
        return advance(*args)

    def kill(number):
        seen.clear()
        dying.at = number

    kill(0)
    monkeypatch.setattr(workers.Workers, "advance", dying)
    return kill


@pytest.mark.parametrize("keep", ["paths", "summary"])
def test_checkpoints_serve_both_engines(keep, problem, client, killed, tmp_path, short_tasks):
    call = (mg.adagrad(0.1), *problem, np.zeros(4))
    asked, on_dask = {"steps": 90, "chains": CHAINS, "keep": keep}, {"engine": "dask"}
    on_dask |= {"client": client}
    whole = mg.run(*call, **asked, **on_dask)
    asked |= {"checkpoint": tmp_path / "c", "every": 0}
    killed(3)
    with pytest.raises(Killed):
        mg.run(*call, **asked, **on_dask)
    killed(0)
    saved = (tmp_path / "c").read_bytes()
    with pytest.raises(CheckpointError, match="unfinished run"):
        mg.run(*call, **asked, **on_dask)
    same(mg.run(*call, **asked, **on_dask, resume=True), whole)
    assert file.read_heading(tmp_path / "c").finished
    (tmp_path / "c").write_bytes(saved)
    close(mg.run(*call, **asked, resume=True), whole)  # here, from a checkpoint of there


def test_ctrl_c_returns_what_has_been_run(problem, client, tmp_path, monkeypatch):
    call = (mg.masgrad(0.1), *problem, np.zeros(4))
    asked = {"chains": CHAINS, "thin": 100, "engine": "dask", "client": client}
    asked |= {"checkpoint": tmp_path / "c"}
    rounds, before = 0, Tasks.each

    def each(self, *told):
        nonlocal rounds
        rounds += 1
        for done in before(self, *told):
            if rounds == 3:
                signal.raise_signal(signal.SIGINT)
            yield done

    monkeypatch.setattr(Tasks, "each", each)
    with pytest.warns(InterruptedWarning, match="resume=True goes on"):
        part = mg.run(*call, 10**9, keep="summary", **asked)
    assert rounds == 3 and 0 < part.steps[-1] < 10**9
    assert file.read_heading(tmp_path / "c").place.startswith(f"step {part.steps[-1]:,} of")
    assert client.submit(sum, [1, 2]).result() == 3


# Workers of several threads.


@pytest.mark.parametrize("p", [pytest.param(2, marks=pytest.mark.long), 8])
def test_threads_of_a_worker_take_turns_where_steps_call_lapack(p, rng):
    """p = 8 needs LAPACK, in which two programs at once could wait for each other for ever."""
    from distributed import Client

    call = (mg.masgrad(0.1), mg.Linear(), scenarios.regression(rng, p=p), np.zeros(p))
    asked = {"steps": 30, "chains": 150}
    keywords = {"processes": False, "n_workers": 1, "threads_per_worker": 3}
    with Client(**keywords, dashboard_address=None, set_as_default=False) as several:
        there = mg.run(*call, **asked, engine="dask", client=several)
    close(there, mg.run(*call, **asked))


# Bad input.


def test_engines_that_cannot_be_are_refused(problem, client):
    call = (mg.sgd(0.1), *problem, np.zeros(4))
    cases = {
        r"engine='spark'; 'local' runs in this process, 'dask'": {"engine": "spark"},
        r"client= is given.*write engine='dask', client=": {"client": client},
        r"scheduler= is given.*write engine='dask', scheduler=": {"scheduler": "tcp://a:1"},
        r"scheduler= is given.*leave scheduler out": {"engine": "local", "scheduler": "tcp://a:1"},
        r"both given": {"engine": "dask", "client": client, "scheduler": "tcp://a:1"},
    }
    for said, keywords in cases.items():
        with pytest.raises(InputError, match=said):
            mg.run(*call, steps=5, **keywords)
    with pytest.raises(TypeError, match=r"distributed\.Client is needed"):
        mg.run(*call, steps=5, engine="dask", client="tcp://a:1")


def test_a_loss_that_cannot_travel_is_refused(client, rng):
    lock = threading.Lock()

    def guarded(theta, z):
        with lock:
            return jnp.sum((theta - z) ** 2)

    call = (mg.sgd(0.1), mg.CustomLoss(guarded, 1), rng.normal(size=(9, 1)), np.zeros(1))
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        mg.run(*call, steps=5, batch_size=2, engine="dask", client=client)


@pytest.mark.long
def test_a_group_whose_workers_are_killed_each_time_is_named(problem, client, monkeypatch):
    monkeypatch.setattr(workers, "_advance_group", suicide)
    with pytest.raises(ClusterError, match=r"group 0 of the chains cannot be advanced.*killed"):
        mg.run(mg.sgd(0.1), *problem, np.zeros(4), 5, chains=3, engine="dask", client=client)


def suicide(*args):
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_page_of_runs_says_what_happens(client, capsys):
    page = (Path(__file__).parent.parent / "docs/runs.md").read_text()
    scope: dict = {}
    with client.as_current():
        for block in re.findall(r"```python\n(.*?)```", page, re.S):
            exec(block, scope)
    assert float(capsys.readouterr().out.split()[0]) < 1e-10
    assert scope["longer"].steps[-1] == 200
    said = {64: "one", 100: "two", 256: "four", 1_024: "sixteen", 10**6: "sixteen"}
    names = {1: "one", 2: "two", 4: "four", 16: "sixteen"}
    assert {chains: names[-(-chains // group_size(chains))] for chains in said} == said
