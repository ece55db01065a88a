"""Ray Train: DataLoader workers keep what they have read, or the last: train.py keep|let-go"""

import sys
import time

import ray
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, kept):
        self.kept = kept
        self.read = {}

    def __len__(self):
        return 6000

    def __getitem__(self, index):
        # 1 MiB each, read as slowly as from a disk.
        time.sleep(0.01)
        self.read[index % self.kept] = torch.randn(1 << 18)
        return self.read[index % self.kept].mean()


def train(settings):
    loader = DataLoader(Files(settings["kept"]), batch_size=20, num_workers=2)
    weight = torch.zeros(1, requires_grad=True)
    for batch in loader:
        (weight * batch).sum().backward()


kept = 1_000_000 if sys.argv[1] == "keep" else 1
ray.init(address="auto", log_to_driver=False)
TorchTrainer(train, train_loop_config={"kept": kept}, scaling_config=ScalingConfig(num_workers=1)).fit()
print("finished")
