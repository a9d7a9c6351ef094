"""Run the tests under several roundings on one machine.

    python tools/roundings.py [--list] [--only plain,avx2] [tests/solvers ...]

Sums round differently on other processors, since their vector units add in another order. The
numerical libraries choose their code by the processor; these variables make them choose another:

    ATEN_CPU_CAPABILITY      torch's own kernels
    MKL_CBWR                 MKL, torch's matrix products
    OPENBLAS_CORETYPE        OpenBLAS, the matrix products of NumPy and SciPy
    NPY_DISABLE_CPU_FEATURES NumPy's own loops
    NUMBA_CPU_NAME           Numba's machine code

Runs every setting that this processor supports, one after the other, and prints a table; the exit
code is 1 if one of them fails. All other arguments go to pytest.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Setting:
    """A name, the processor features it needs, and the variables it sets."""

    name: str
    needs: tuple[str, ...]
    variables: dict[str, str]
    threads: int = 1


SETTINGS = [
    Setting("native", (), {}),
    Setting("native-2", (), {}, threads=2),
    Setting(
        "plain",
        ("sse3",),
        {
            "ATEN_CPU_CAPABILITY": "default",
            "MKL_CBWR": "COMPATIBLE",
            "OPENBLAS_CORETYPE": "Prescott",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
            "NUMBA_CPU_NAME": "generic",
        },
    ),
    Setting(
        "plain-torch",
        ("sse3",),
        {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"},
    ),
    Setting(
        "avx2",
        ("avx2", "fma"),
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "MKL_CBWR": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": "X86_V4",
        },
    ),
    Setting(
        "avx2-zen-2",
        ("avx2", "fma"),
        {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Zen"},
        threads=2,
    ),
    Setting(
        "avx512",
        ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
        {
            "ATEN_CPU_CAPABILITY": "avx512",
            "MKL_CBWR": "AVX512",
            "OPENBLAS_CORETYPE": "SkylakeX",
        },
    ),
]


def features() -> set[str]:
    """The features of the processor as Linux names them; empty if unknown."""
    if not CPUINFO.exists():
        return set()
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", CPUINFO.read_text(), re.MULTILINE)
    found = set(match.group(1).split()) if match else set()
    return found | ({"sse3"} if "pni" in found else set())


def environment(setting: Setting) -> dict[str, str]:
    """The environment with the variables of this setting and of no other."""
    ours = {name for other in SETTINGS for name in other.variables}
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(setting.threads))
    return inherited | threads | setting.variables


def run(setting: Setting, arguments: list[str]) -> tuple[int, str, float]:
    """The exit code of pytest, its last line, and the seconds it took."""
    began = time.perf_counter()
    last = ""
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(setting),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return process.returncode, last, time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="show the settings and stop")
    parser.add_argument("--only", help="names of settings, separated by commas")
    options, arguments = parser.parse_known_args()
    able = features()
    known = {setting.name: setting for setting in SETTINGS}
    chosen = options.only.split(",") if options.only else list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        parser.error(f"--only takes names of {', '.join(known)}; got {', '.join(unknown)}.")
    rows: list[tuple[str, str, str]] = []
    failed = False
    for setting in map(known.__getitem__, chosen):
        missing = [feature for feature in setting.needs if feature not in able]
        shown = " ".join(f"{k}={v!r}" for k, v in setting.variables.items())
        if missing:
            rows.append((setting.name, "not on this processor", f"needs {' '.join(missing)}"))
        elif options.list:
            rows.append((setting.name, f"{setting.threads} thread(s)", shown))
        else:
            print(f"== {setting.name}: {shown}", flush=True)
            code, last, seconds = run(setting, arguments)
            failed = failed or code != 0
            rows.append((setting.name, "failed" if code else "passed", f"{last} [{seconds:.0f} s]"))
    width = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, outcome, detail in rows:
        print(f"{name:<{width[0]}}  {outcome:<{width[1]}}  {detail}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
