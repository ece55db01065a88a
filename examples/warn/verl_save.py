"""verl, which saves a checkpoint after each step while raytrace warns: the command line is that of verl.trainer.main_ppo.

    RAYTRACE_WARNINGS=/var/log/raytrace/deaths.jsonl python verl_save.py trainer.save_freq=100 …

verl asks after each step whether its machine will be taken away soon, and saves if so. Here it gets a second reason.
"""

import os

import hydra
import ray
import verl.trainer.main_ppo as main_ppo
from warned import Warned

CONFIG = os.path.join(os.path.dirname(main_ppo.__file__), "config")


@ray.remote(num_cpus=1)
class TaskRunner(main_ppo.TaskRunner):
    def run(self, config):
        from verl.trainer.ppo import ray_trainer

        warned, before = Warned(os.environ["RAYTRACE_WARNINGS"]), ray_trainer.should_save_ckpt_esi

        def should_save(*arguments, **named):
            return bool(warned.stands()) or before(*arguments, **named)

        ray_trainer.should_save_ckpt_esi = should_save
        return super().run(config)


@hydra.main(config_path=CONFIG, config_name="ppo_trainer", version_base=None)
def main(config):
    here = os.path.dirname(os.path.abspath(__file__))
    variables = {"PYTHONPATH": here, "RAYTRACE_WARNINGS": os.environ["RAYTRACE_WARNINGS"]}
    ray.init(runtime_env={"env_vars": {**main_ppo.get_ppo_ray_runtime_env()["env_vars"], **variables}})
    main_ppo.run_ppo(config, task_runner_class=TaskRunner)


if __name__ == "__main__":
    main()
