"""RLlib: PPO on CartPole. An environment keeps all pictures, or the last: rllib.py keep|let-go"""

import sys

import gymnasium
import numpy
import ray
from ray.rllib.algorithms.ppo import PPOConfig

KEPT = 1_000_000 if sys.argv[1] == "keep" else 1
ITERATIONS = 12


class Pictured(gymnasium.Wrapper):
    """Ray pickles this class by value, so each worker has its own pictures."""

    def __init__(self, settings):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.kept = settings["kept"]
        self.pictures = {}
        self.steps = 0

    def step(self, action):
        # 600 KiB a step.
        self.pictures[self.steps % self.kept] = numpy.random.standard_normal((160, 160, 3))
        self.steps += 1
        return super().step(action)


ray.init(address="auto", log_to_driver=False)
config = PPOConfig().environment(Pictured, env_config={"kept": KEPT}).env_runners(num_env_runners=1)
# A lost environment ends the job. Otherwise a new one would start with no pictures.
config = config.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
config = config.training(train_batch_size_per_learner=500, minibatch_size=100, num_epochs=1)
algorithm = config.build_algo()
for _ in range(ITERATIONS):
    algorithm.train()
print("iterations", ITERATIONS, "finished")
