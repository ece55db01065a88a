"""Runs verl and saves a checkpoint after each step while a raytrace warning is active.

    RAYTRACE_WARNINGS="$PWD/warnings.jsonl" python verl_save.py trainer.save_freq=100 …

The arguments are those of verl.trainer.main_ppo. verl 0.6.1 and 0.7.0 check after each step whether
the machine will be taken away soon, and save a checkpoint in that case. This script adds a second
reason to save: an active warning.
"""

import os

import hydra
import ray
import verl.trainer.main_ppo as main_ppo
from warned import Warnings

CONFIG = os.path.join(os.path.dirname(main_ppo.__file__), "config")
WARNINGS = os.environ["RAYTRACE_WARNINGS"]


class TaskRunner(main_ppo.TaskRunner):
    def run(self, config):
        from verl.trainer.ppo import ray_trainer

        warned, before = Warnings(WARNINGS), ray_trainer.should_save_ckpt_esi

        def should_save(*arguments, **named):
            return bool(warned.active()) or before(*arguments, **named)

        ray_trainer.should_save_ckpt_esi = should_save
        return super().run(config)


@hydra.main(config_path=CONFIG, config_name="ppo_trainer", version_base=None)
def main(config):
    main_ppo.run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(TaskRunner))


if __name__ == "__main__":
    main()
