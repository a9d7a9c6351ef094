"""Processes that compute jobs side by side, one thread each."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from fwnet.paper.jobs import Job, Outcome, compute
from fwnet.paper.store import plain


def work(
    jobs: Iterator[Job],
    count: int,
    started: Callable[[Job], object],
    progress: Callable[[Job, float, str], object],
) -> Iterator[tuple[Job, Outcome]]:
    """Compute the jobs with `count` processes, and give each outcome as it comes.

    A job is taken from the iterator when a process is free for it. A process that dies takes its
    job with it, as a failure, and no other. Whatever ends this ends the processes.
    """
    running: dict[Connection, tuple[BaseProcess, Job]] = {}
    try:
        for _ in range(count):
            _next_job(jobs, None, running, started)
        while running:
            for connection in wait(list(running)):
                assert isinstance(connection, Connection)
                process, job = running[connection]
                try:
                    message = connection.recv()
                except (EOFError, ConnectionError):  # the latter if it did not read its job
                    del running[connection]
                    process.join()
                    _next_job(jobs, None, running, started)
                    reason = f"its process ended with code {process.exitcode}; was memory short?"
                    yield job, Outcome(None, 0.0, reason)
                    continue
                if isinstance(message, Outcome):
                    del running[connection]
                    _next_job(jobs, (process, connection), running, started)
                    yield job, message
                else:
                    progress(job, *message)
    finally:
        for connection, (process, _) in running.items():
            process.terminate()
            process.join()
            connection.close()


def _start() -> tuple[BaseProcess, Connection]:
    context = get_context("spawn")  # a forked torch can hang
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    with _no_interrupts():  # inherited: Ctrl-C is for the parent, which ends the workers
        process.start()
    theirs.close()
    return process, ours


@contextmanager
def _no_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only it may set signals
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _next_job(
    jobs: Iterator[Job],
    worker: tuple[BaseProcess, Connection] | None,
    running: dict[Connection, tuple[BaseProcess, Job]],
    started: Callable[[Job], object],
) -> None:
    """Give the next job to a free worker, or to a new one; without a job, send it home."""
    job = next(jobs, None)
    if job is not None:
        process, connection = worker or _start()
        running[connection] = (process, job)
        with suppress(ConnectionError):  # it died; who reads from it is told
            connection.send(job)
        started(job)
    elif worker is not None:
        process, connection = worker
        connection.close()  # the worker reads the end of the file and ends
        process.join()


def _serve(connection: Connection) -> None:
    """A worker: jobs in, progress and outcomes out, until the other end closes."""
    torch.set_num_threads(1)

    def tell(message: Any) -> None:
        try:
            connection.send(message)
        except OSError:  # the parent is gone: nobody will keep what comes next
            raise SystemExit(1) from None

    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        tell(_light(compute(job, lambda share, text: tell((share, text)))))


def _light(outcome: Outcome) -> Outcome:
    """Plain metrics: tensors would be sent through shared memory."""
    try:
        metrics: Any = plain(outcome.metrics)
    except TypeError as error:
        return Outcome(None, outcome.seconds, f"TypeError: {error}")
    return replace(outcome, metrics=metrics)
