"""tools/roundings.py: which settings a processor can run, and what each sets."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from scripts import ROOT

TOOL = ROOT / "tools" / "roundings.py"


@pytest.fixture
def roundings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("roundings", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "roundings", module)
    spec.loader.exec_module(module)
    return module


def test_only_what_the_processor_has(
    roundings: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["roundings.py", "--list"])
    monkeypatch.setattr(roundings, "features", lambda: {"sse3", "avx2", "fma"})
    assert roundings.main() == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["plain"].startswith("1 thread(s)")
    assert "ATEN_CPU_CAPABILITY='avx2'" in rows["avx2"]
    assert rows["avx512"].startswith("not on this processor  needs avx512f")


def test_a_setting_has_its_own_variables_only(
    roundings: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    native, plain = (
        roundings.environment(setting)
        for setting in roundings.SETTINGS
        if setting.name in {"native", "plain"}
    )
    assert "MKL_CBWR" not in native
    assert plain["MKL_CBWR"] == "COMPATIBLE"
    assert plain["OMP_NUM_THREADS"] == "1"


def test_an_unknown_name_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--only", "sparc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--only takes names of native, native-2, plain" in done.stderr
    assert "got sparc." in done.stderr
