"""Random fits against an exact Newton oracle: is the library ever wrong?

    python benchmarks/campaign.py [--seed 1] [--fits 3000] [--workers 2] [--only ID ...]
        [--kind sorted rare heavy ...] [--passes auto] [--page benchmarks/campaign.md]

A problem is a pure function of the seed and its number: `--only 1-0042` (or `--only 42`) reruns one
and prints what was found. `--kind` keeps the problems that have all these tags: block, small,
single, limited, two-read, sorted, late, rare, few, heavy, noncanonical, weighted, offset,
collinear, category, large, or the name of a family, a link or a container.
"""

import argparse
import faulthandler
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context

# One thread for each worker, said before NumPy is imported; workers inherit it.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NPROC"] = "1"
sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from campaign_page import page, summary
from campaign_problems import Problem, draw
from campaign_verdicts import GOOD, SLOW, UNDECIDED, Record, record_of, run

LIMIT = 120.0
"""Seconds that a fit may take."""


def chosen(args: argparse.Namespace) -> list[Problem]:
    """The problems that the command line asks for."""
    if args.only:
        numbers = [int(text.rpartition("-")[2]) for text in args.only]
    else:
        numbers = list(range(args.fits))
    problems = [draw(args.seed, k) for k in numbers]
    problems = [p for p in problems if set(args.kind) <= p.tags]
    if args.passes:
        passes = int(args.passes) if args.passes.isdigit() else args.passes
        problems = [replace(p, passes=passes) for p in problems]
    return problems


def judged(problems: list[Problem], workers: int, limit: float) -> Iterator[Record]:
    """The records, as they are made; in this process if there is one worker."""
    if workers <= 1:
        yield from (run(problem, limit) for problem in problems)
        return
    waiting = list(reversed(problems))
    while waiting:
        yield from _pooled(waiting, workers, limit)


def _pooled(waiting: list[Problem], workers: int, limit: float) -> Iterator[Record]:
    """Records from a pool, until nothing is waiting or a worker dies."""
    jobs: dict[Future, Problem] = {}
    with ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=400) as pool:
        while waiting or jobs:
            while waiting and len(jobs) < workers:
                problem = waiting.pop()
                jobs[pool.submit(watched, problem, limit)] = problem
            done = wait(jobs, return_when=FIRST_COMPLETED).done
            yield from (_outcome(job, jobs.pop(job)) for job in done)
            if any(isinstance(job.exception(), BrokenProcessPool) for job in done):
                yield from (_outcome(job, problem) for job, problem in jobs.items())
                return


def watched(problem: Problem, limit: float) -> Record:
    """A record, or the end of this worker if code outside Python does not heed the time limit."""
    faulthandler.dump_traceback_later(4 * limit, exit=True)
    try:
        return run(problem, limit)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _outcome(job: Future, problem: Problem) -> Record:
    error = job.exception()
    if error is None:
        return job.result()
    if isinstance(error, BrokenProcessPool):
        return record_of(problem, SLOW, "the worker died or was stopped, here or in its neighbour")
    return record_of(problem, UNDECIDED, f"campaign: {type(error).__name__}: {error}"[:300])


def show(record: Record) -> str:
    line = f"{record.id} {record.verdict}: {record.detail} -- {record.describe}"
    return " ".join(line.split())


def options() -> argparse.Namespace:
    layout = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fits", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--kind", nargs="+", default=[])
    parser.add_argument("--passes", default=None)
    parser.add_argument("--page", type=pathlib.Path, default=None)
    parser.add_argument(
        "--records", type=pathlib.Path, default=None, help="all records, as JSON lines"
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a fit may take")
    return parser.parse_args()


def main() -> None:
    args = options()
    problems = chosen(args)
    begun, records = time.perf_counter(), []
    for record in judged(problems, args.workers, args.limit):
        records.append(record)
        if record.verdict not in GOOD or args.only:
            print(show(record), flush=True)
        if len(records) % 50 == 0:
            passed = time.perf_counter() - begun
            print(f"{len(records)} of {len(problems)}, {passed:.0f} s", file=sys.stderr, flush=True)
    records.sort(key=lambda r: r.id)
    print(summary(records))
    if args.records:
        args.records.write_text("".join(json.dumps(r.as_dict()) + "\n" for r in records))
    if args.page:
        command = "python benchmarks/campaign.py " + " ".join(sys.argv[1:])
        args.page.write_text(page(records, args.seed, time.perf_counter() - begun, command))


if __name__ == "__main__":
    main()
