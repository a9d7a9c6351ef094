"""python -m benchmarks.optim: four networks, tuned baselines, and the column "no tuning"."""
