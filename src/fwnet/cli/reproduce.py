"""`fwnet reproduce`: run the paper's experiments and write the page."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fwnet.cli.errors import Failed, command, say
from fwnet.cli.names import completes, known
from fwnet.cli.output import FILE, as_json, make_folder, show, table

if TYPE_CHECKING:
    from fwnet.lab.paper.experiment import Experiment, Results
    from fwnet.lab.paper.run import Job, RunObserver

# For the shell's completion, which must not wait for the experiments to load.
_PAPER = ("cifar2", "circles", "manmade", "mnist", "density")
NAMES = (*_PAPER, "scaling", "graphs", "quadrature", "core")
PROFILES = ("quick", "paper", "full")


@command("reproduce")
@click.argument(
    "names", nargs=-1, shell_complete=completes(NAMES), help="Experiments. [default: all]"
)
@click.option("--profile", type=click.Choice(PROFILES), default="quick", help="How much to run.")
@click.option("--seeds", type=click.IntRange(min=1), help="Seeds per experiment.")
@click.option("--resume/--fresh", default=True, help="Keep finished seeds.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Seeds at the same time. [default: the cores, at most 4]",
)
@click.option("--runs", type=FILE, default="runs", help="Folder of the results.")
@click.option("--out", type=FILE, default="report", help="Folder of the page.")
@as_json
def reproduce(
    names: tuple[str, ...],
    profile: str,
    seeds: int | None,
    resume: bool,
    workers: int | None,
    runs: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Run the paper's experiments, seed by seed, and write one page with verdicts and figures.

    The quick profile needs no data beyond scikit-learn's and takes minutes; paper and full need
    MNIST and CIFAR (FWNET_DATA, or a download). The same command resumes a stopped run.

    Examples:

        fwnet reproduce
        fwnet reproduce circles mnist --profile paper --seeds 5
        fwnet reproduce --profile full --out report-full
    """
    import torch

    from fwnet.lab.paper.experiment import Profile
    from fwnet.lab.paper.experiments import EXPERIMENTS
    from fwnet.lab.paper.run import plan, run
    from fwnet.lab.paper.store import Store

    chosen = _chosen(names, EXPERIMENTS)
    for option, folder in (("--runs", runs), ("--out", out)):
        make_folder(option, folder)
    store = Store(runs, warn=say)
    size = Profile(profile)
    jobs = plan(chosen, size, seeds)
    count = min(os.cpu_count() or 1, 4) if workers is None else workers
    torch.set_num_threads(1)  # the same numbers on any number of cores
    try:
        with ExitStack() as stack:
            display = _display(stack, len(jobs))
            failures = run(jobs, size, store, resume=resume, workers=count, watch=display)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Stopped. Finished seeds are kept in {runs}; the same command resumes from there."
        ) from None
    for failure in failures:
        say(f"{failure.experiment}, seed {failure.seed}: {failure.reason}")
    results = [each for each in store.results() if each.profile is size]
    if results:
        command = f"fwnet reproduce {' '.join(names)}".strip() + f" --profile {profile}"
        write_page(EXPERIMENTS, results, out, command, as_json)
    if failures:
        raise Failed(f"{len(failures)} of {len(chosen)} experiments failed; the others are kept.")


def _display(stack: ExitStack, total: int) -> RunObserver:
    """A progress bar for all seeds, and a line for each that ends."""
    from fwnet.lab.paper.run import RunObserver
    from fwnet.show.progress import progress_bar

    show = progress_bar(stack, total)
    shares: dict[Job, float] = {}

    class Display(RunObserver):
        def progress(self, job: Job, share: float, text: str) -> None:
            shares[job] = min(max(share, 0.0), 1.0)
            show(sum(shares.values()), f"{job.name}, seed {job.seed}: {text}")

        def end(self, job: Job, how: str) -> None:
            shares[job] = 1.0
            show(sum(shares.values()), "")
            print(f"{job.name:<12} seed {job.seed:<3} {how}", file=sys.stderr)

    return Display()


def write_page(
    experiments: tuple[Experiment[Any], ...],
    results: list[Results],
    out: Path,
    command: str,
    as_json: bool,
) -> None:
    """Write the page, and print its path and its verdicts."""
    from fwnet.lab.paper.report import write_report

    written = write_report(experiments, results, out, command=command, warn=say)
    claims = [(part.name, claim) for part in written.sections for claim in part.claims]
    rows = [[name, claim.words, claim.verdict.value] for name, claim in claims]
    data = {
        "page": written.path.as_posix(),
        "experiments": [part.name for part in written.sections],
        "claims": [{"experiment": name} | claim.facts() for name, claim in claims],
    }
    shown = [table("", ["Experiment", "The paper says", "Verdict"], rows)] if rows else []
    show(data, as_json, *shown)
    if not as_json:
        print(written.path)


def _chosen(
    names: Sequence[str], experiments: tuple[Experiment[Any], ...]
) -> list[Experiment[Any]]:
    by_name = {experiment.name: experiment for experiment in experiments}
    chosen = dict.fromkeys(by_name[known("experiment", name, by_name)] for name in names)
    return list(chosen) or list(experiments)
