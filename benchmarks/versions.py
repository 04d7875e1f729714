"""Two source trees of masgrad side by side: are the digits the same, is one of them slower?

    python benchmarks/versions.py OLD_SRC NEW_SRC [--numbers] [--speed] [--rounds 15]

Each tree has processes of its own, with PYTHONPATH set to it. Numbers: both fit a list of problems;
estimates and intervals are compared in the old standard errors (if those are 0 or infinite, in
units of the largest estimate), all else relatively. Speed: two workers take turns on the same data;
the interval of a median of paired ratios new / old is made of their order statistics.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from functools import lru_cache

import numpy as np
from scipy.stats import binom

import masgrad as mg

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from versions_problems import CONTESTS, problems

SAME = 1e-9

# --- numbers


def found(r):
    """What is compared of a result."""
    info = getattr(r, "fit_info", None) or r.how
    values = {
        "params": r.params, "bse": r.bse, "conf_int": r.conf_int(), "penalized": r.penalized_params,
        "loglik": getattr(r, "log_likelihood", None), "deviance": r.deviance,
    }  # fmt: skip
    lists = {k: None if v is None else np.ravel(v).tolist() for k, v in values.items()}
    return lists | {"nobs": int(r.nobs), "reads": int(info.reads)}


def attempt(fit):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            out = found(fit())
        except Exception as error:
            out = {"error": f"{type(error).__name__}: {error}"}
    return out | {"warnings": sorted({w.category.__name__ for w in said})}


def away(old, new, unit):
    """The largest difference; infinite if only one of them is there, or is finite."""
    if old is None or new is None or len(old) != len(new):
        return 0.0 if old is new else np.inf
    a, b = np.array(old), np.array(new)
    with np.errstate(all="ignore"):
        size = np.nan_to_num(np.abs(b - a) / unit, nan=np.inf, posinf=np.inf)
    return float(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, size).max(initial=0.0))


def distances(old, new):
    keys = ("params", "bse", "conf_int", "penalized", "loglik", "deviance")
    if "error" in old or "error" in new:
        return dict.fromkeys(keys, 0.0)
    theta, se = np.array(old["params"]), np.array(old["bse"])
    unit = np.where(np.isfinite(se) & (se > 0), se, np.nanmax(np.abs(theta), initial=0.0))
    sizes = [max(1.0, *np.abs(old[key] or [0.0])) for key in keys[4:]]
    units = (unit, se, np.repeat(unit, 2), unit, *sizes)
    return {key: away(old[key], new[key], by) for key, by in zip(keys, units, strict=True)}


def changes(old, new):
    keys = ("error", "warnings", "nobs", "reads")
    return [f"{k}: {old.get(k)} -> {new.get(k)}" for k in keys if old.get(k) != new.get(k)]


def numbers(sources, folder):
    """Print what differs."""
    old, new = (outcomes(source, folder) for source in sources)
    size = {name: distances(old[name], new[name]) for name in old}
    worst = {name: max(one.values()) for name, one in size.items()}
    changed = {name: changes(old[name], new[name]) for name in old}
    differ = [name for name in old if worst[name] > SAME or changed[name]]
    print(f"{'problem':32s}" + "".join(f"{key:>10s}" for key in size[next(iter(size))]))
    for name in differ:
        shown = [f"{d:10.1e}" if d > SAME else f"{'.':>10s}" for d in size[name].values()]
        print(f"{name:32s}{''.join(shown)}  {'; '.join(changed[name])}")
    top = max(worst, key=lambda name: worst[name])
    print(
        f"{len(old)} problems, {len(old) - len(differ)} the same to {SAME:.0e}, "
        f"largest difference {worst[top]:.2g} at {top if worst[top] else 'none'}"
    )


def outcomes(source, folder):
    """What every problem gave with this tree."""
    with start("numbers", source, folder) as worker:
        said = worker.communicate()[0]
    if worker.returncode:
        raise SystemExit(f"the process of {source} failed")
    return json.loads(said.splitlines()[-1])


# --- speed


def answer(folder):
    """For every name on standard input the seconds of its fits; data are made before."""
    ready = lru_cache(maxsize=1)(lambda name: CONTESTS[name][1](folder))
    for line in sys.stdin:
        name = line.strip()
        fit = ready(name)
        began = time.perf_counter()
        for _ in range(CONTESTS[name][0]):
            fit()
        print(time.perf_counter() - began, flush=True)


def contest(workers, name, rounds):
    """Seconds (rounds, 2); each round begins with the other tree, and a first one is dropped."""
    times = np.empty((rounds + 1, 2))
    for i in range(rounds + 1):
        for tree in (0, 1) if i % 2 else (1, 0):
            print(name, file=workers[tree].stdin, flush=True)
            times[i, tree] = float(workers[tree].stdout.readline())
    return times[1:]


def rank(n):
    """The median is between the k-th smallest and the k-th largest of n; k, and the level."""
    k = max(1, int(binom.ppf(0.025, n, 0.5)))
    return k, 1 - 2 * binom.cdf(k - 1, n, 0.5)


def speed(sources, folder, rounds):
    (k, level), medians, (old, new) = rank(rounds), [], sources
    print(f"{'problem':32s}  old (s)  new / old and its {level:.0%} interval, {rounds} rounds")
    with start("speed", old, folder) as first, start("speed", new, folder) as second:
        for name, (fits, _) in CONTESTS.items():
            times = contest((first, second), name, rounds)
            ratios, once = np.sort(times[:, 1] / times[:, 0]), np.median(times[:, 0]) / fits
            medians.append(np.median(ratios))
            interval = f"({ratios[k - 1]:.3f} to {ratios[-k]:.3f})"
            print(f"{name:32s} {once:8.4f}  {medians[-1]:.3f} {interval}", flush=True)
    print(f"geometric mean of the medians: {np.exp(np.mean(np.log(medians))):.3f}")


# --- processes


def start(task, source, folder):
    """This file in a process of its own."""
    source = str(pathlib.Path(source).resolve())
    command = [sys.executable, __file__, "worker", task, source, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": source}, **pipes)


def work(task, source, folder):
    if not pathlib.Path(mg.__file__).resolve().is_relative_to(source):
        raise SystemExit(f"masgrad is from {mg.__file__}, not from {source}")
    if task == "speed":
        return answer(folder)
    return print(json.dumps({name: attempt(fit) for name, fit in problems(folder)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs=2, metavar="SRC", help="the old tree, then the new one")
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.numbers or not chosen.speed:
            numbers(chosen.sources, folder)
        if chosen.speed or not chosen.numbers:
            speed(chosen.sources, folder, chosen.rounds)


if __name__ == "__main__":
    work(*sys.argv[2:]) if sys.argv[1:2] == ["worker"] else main()
