"""What verl 0.5.0 lacks to train on CPUs, changed in the installed package; what has been changed is left alone."""

import pathlib
import sys

# Torch's CPU module lacks functions of torch.cuda that verl calls.
DEVICE = '''class _Cpu:
    def __getattr__(self, name):
        return getattr(torch.cpu, name)

    def current_device(self):
        return torch.device("cpu")

    def mem_get_info(self, *_):
        import psutil

        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_device_name(self, *_):
        return "CPU"

    def get_rng_state(self, *_):
        return torch.random.get_rng_state()

    def set_rng_state(self, state, *_):
        torch.random.set_rng_state(state)

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def empty_cache(self):
        pass

    def set_device(self, *_):
        pass

    def reset_peak_memory_stats(self, *_):
        pass

    def memory_allocated(self, *_):
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated


'''

# File, what it says, what it shall say.
CHANGES = [
    ("utils/device.py", "def get_torch_device() -> any:", DEVICE + "def get_torch_device() -> any:"),
    (
        "utils/device.py",
        "    device_name = get_device_name()\n    try:\n",
        '    device_name = get_device_name()\n    if device_name == "cpu":\n        return _Cpu()\n    try:\n',
    ),
    (
        "utils/device.py",
        '    else:\n        raise RuntimeError(f"No available nccl',
        '    elif get_device_name() == "cpu":\n        return "gloo"\n    else:\n        raise RuntimeError(f"No available nccl',
    ),
    # Torch refuses "cpu:gloo,cpu:gloo".
    (
        "workers/fsdp_workers.py",
        'backend=f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}",',
        'backend="gloo",',
    ),
    ("workers/fsdp_workers.py", 'attn_implementation="flash_attention_2"', 'attn_implementation="sdpa"'),
    # FSDP neither broadcasts from CPUs nor pins memory without a GPU.
    ("workers/fsdp_workers.py", "sync_module_states=True,", "sync_module_states=False,"),
    (
        "workers/fsdp_workers.py",
        'cpu_offload = None if role == "actor" else CPUOffload(offload_params=True)',
        "cpu_offload = None",
    ),
    # The trainer has repeated the prompts already, as verl 0.6.1 knows.
    ("workers/rollout/hf_rollout.py", '"num_return_sequences": self.config.n,', '"num_return_sequences": 1,'),
    (
        "utils/fsdp_utils.py",
        'handle.flat_param_to(torch.device(f"{get_device_name()}:{device_id}"), non_blocking=True)',
        'handle.flat_param_to(torch.device("cpu"), non_blocking=True)',
    ),
]


def main(package):
    mark = pathlib.Path(package, "changed_for_cpus")
    if mark.exists():
        return
    for file, old, new in CHANGES:
        path = pathlib.Path(package, file)
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{path} lacks {old!r}: this is not verl 0.5.0, or was changed in part")
        path.write_text(text.replace(old, new))
    mark.touch()


main(sys.argv[1])
