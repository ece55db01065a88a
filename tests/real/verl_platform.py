"""CPUs as a platform of verl 0.9. Otherwise its ranks ask Ray for GPUs that do not exist."""

from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import torch

from .platform_base import PlatformBase
from .platform_manager import PlatformRegistry


class _Device:
    """`torch.cpu` with the functions of `torch.cuda` that verl calls."""

    def __getattr__(self, name):
        return getattr(torch.cpu, name)

    def current_device(self):
        return torch.device("cpu")

    def mem_get_info(self, *_):
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_device_name(self, *_):
        return "CPU"

    def get_device_properties(self, *_):
        return SimpleNamespace(name="CPU", total_memory=psutil.virtual_memory().total)

    def get_rng_state(self, *_):
        return torch.random.get_rng_state()

    def set_rng_state(self, state, *_):
        torch.random.set_rng_state(state)

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def nothing(self, *_, **__):
        pass

    empty_cache = ipc_collect = set_device = synchronize = reset_peak_memory_stats = nothing

    def memory_allocated(self, *_):
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated


@PlatformRegistry.register(platform="cpu")
class PlatformCpu(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _Device()

    def is_available(self):
        return True

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 1

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def profiler_start(self):
        pass

    profiler_stop = profiler_start

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None
