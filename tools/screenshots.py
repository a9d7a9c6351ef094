"""Open a report in headless Chromium: light, dark, phone, print; fail on console messages.

    python tools/screenshots.py report --out screenshots

Hovers over a figure, hides a curve and switches an axis before the screenshot, so that the page's
script is exercised. Needs Chromium; the tests do not.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOUCH = """<script>addEventListener("load", () => setTimeout(() => {
  const plot = document.querySelector(".plot");
  if (!plot) return;
  const press = (name) => [...plot.querySelectorAll("button")].at(name).click();
  press(0); press(0);            // hide the first curve, show it again
  press(-1); press(-1);          // the last axis: switch and back
  const svg = plot.querySelector(".area svg");
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width * 0.6}));
  document.documentElement.dataset.tip = String(!plot.querySelector(".tip").hidden);
}, 200));</script></body>"""
PHONE = '<body style="margin:0"><iframe src="{}" style="border:0;width:390px;height:{}px"></iframe>'


def chromium(*arguments: str) -> tuple[str, list[str]]:
    """Standard output, and what the page wrote to its console."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("Chromium is not installed.")
    shared = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    done = subprocess.run(
        [program, *shared, "--enable-logging=stderr", "--virtual-time-budget=4000", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout, re.findall(r":CONSOLE[:(].*", done.stderr)


def main() -> None:
    """Take the screenshots, then check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the folder with index.html")
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--height", type=int, default=3200, help="of the pictures, in pixels")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    text = (options.report / "index.html").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        touched, phone, paper = (Path(folder, f"{n}.html") for n in ("page", "phone", "paper"))
        touched.write_text(text.replace("</body>", TOUCH), encoding="utf-8")
        phone.write_text(PHONE.format(touched.name, options.height), encoding="utf-8")
        # Not every viewer shows a PDF, so render the print rules on a screen as wide as A4 too.
        on_paper = text.replace("@media print", "@media all").replace(
            "@media screen", "@media not all"
        )
        paper.write_text(on_paper, encoding="utf-8")
        size, dark = (
            f"--window-size=1200,{options.height}",
            "--blink-settings=preferredColorScheme=0",
        )
        shot = {
            name: f"--screenshot={(options.out / f'{name}.png').resolve()}"
            for name in ("light", "dark", "phone", "print")
        }
        pdf = f"--print-to-pdf={(options.out / 'print.pdf').resolve()}"
        said = []
        for arguments in (
            (shot["light"], size, touched.as_uri()),
            (shot["dark"], size, dark, touched.as_uri()),
            (shot["phone"], f"--window-size=500,{options.height}", phone.as_uri()),
            (shot["print"], f"--window-size=794,{options.height}", dark, paper.as_uri()),
            (pdf, "--no-pdf-header-footer", (options.report / "index.html").resolve().as_uri()),
        ):
            said += chromium(*arguments)[1]
        dom, more = chromium("--dump-dom", touched.as_uri())
    plots = len(re.findall(r'class="plot"', dom))
    drawn = len(re.findall(r'<svg[^>]*role="img"', dom))
    print(f"{drawn} of {plots} figures drawn; pictures in {options.out}")
    for line in [*said, *more]:
        print(line)
    if said or more or drawn != plots or (plots and 'data-tip="true"' not in dom):
        sys.exit("The page has errors.")


if __name__ == "__main__":
    main()
