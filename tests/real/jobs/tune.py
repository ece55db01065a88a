"""Ray Tune: trials that keep tables, or too many trials: tune.py keep|let-go|large [max_concurrent_trials=2]"""

import sys
import time

import numpy
import ray
from ray import tune

MIB = 1 << 20
KEPT = 1_000_000 if sys.argv[1] == "keep" else 1
# What a trial holds from its start.
MODEL = 600 if sys.argv[1] == "large" else 1
# The options of its TuneConfig.
OPTIONS = {key: int(value) for key, value in (one.split("=") for one in sys.argv[2:])}
STEPS = 40


def objective(config):
    model = numpy.ones(config["model"] * MIB // 8)
    tables = {}
    for step in range(STEPS):
        tables[step % config["kept"]] = table = numpy.ones(16 * MIB // 8)
        time.sleep(0.3)
        tune.report({"loss": float(config["rate"] * table[0] * model[0]) / (step + 1)})


ray.init(address="auto", log_to_driver=False)
space = {"rate": tune.uniform(0.1, 1.0), "model": MODEL, "kept": KEPT}
# A lost trial is not started again, and ends the job.
chosen = tune.TuneConfig(metric="loss", mode="min", num_samples=12, **OPTIONS)
trials = tune.Tuner(objective, param_space=space, tune_config=chosen).fit()
if trials.errors:
    raise trials.errors[0]
print("trials", len(trials), "finished")
