"""Patches the installed OpenRLHF 0.11.2 and DeepSpeed, once, for training on CPUs.

    patch_openrlhf.py PACKAGE
"""

import pathlib
import sys

# Weights go to vLLM through the store of the group. NCCL needs GPUs, and Ray's gloo groups only
# span a process group of torch's own.
BROADCAST = '''class _Store:
    def __init__(self, group):
        self.group = group

    def broadcast(self, tensor, src, stream=None):
        sent = self.group.broadcast_obj(tensor if self.group.rank == src else None, src)
        if self.group.rank != src:
            tensor.copy_(sent)


'''

# Texts in the files of OpenRLHF and DeepSpeed, and their replacements.
CHANGES = [
    ('torch.device(f"cuda:{torch.cuda.current_device()}")', 'torch.device("cpu")'),
    ("torch.cuda.current_device()", 'torch.device("cpu")'),
    ("torch.cuda.empty_cache()", "None"),
    ("torch.cuda.synchronize()", "None"),
    ("torch.cuda.set_device(local_rank)", "None"),
    ('"cuda", (dp_size', '"cpu", (dp_size'),
    ('dtype=dtype, device="cuda")', 'dtype=dtype, device="cpu")'),
    ("torch.cuda.current_stream()", "None"),
    ("def stateless_init_process_group(", f"{BROADCAST}def stateless_init_process_group("),
    ("    from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator\n", ""),
    ("PyNcclCommunicator(pg, device=device)", "_Store(pg)"),
    # Use torch's optimizer and communication. DeepSpeed compiles its own at their first use, which
    # takes 1 GiB.
    ('"type": "AdamW",\n                "params": {', '"type": "AdamW",\n                "params": {\n                    "torch_adam": True,'),
    ("self.shm_comm_op = build_shm_op()", "self.shm_comm_op = None"),
    # Needed only for packed samples and ring attention.
    (
        "from flash_attn.bert_padding import index_first_axis, pad_input, rearrange, unpad_input\n",
        "index_first_axis = pad_input = rearrange = unpad_input = None\n",
    ),
    ("from flash_attn.utils.distributed import all_gather\n", "all_gather = None\n"),
]


def main(package):
    mark = package / "changed_for_cpus"
    if mark.exists():
        return
    missing = {old for old, _ in CHANGES}
    for path in [*package.rglob("*.py"), package.with_name("deepspeed") / "comm/torch.py"]:
        text = path.read_text()
        for old, new in CHANGES:
            if old in text:
                text = text.replace(old, new)
                missing.discard(old)
        path.write_text(text)
    if missing:
        raise SystemExit(f"{package} lacks {missing}: this is not OpenRLHF 0.11.2, or was changed in part")
    mark.touch()


main(pathlib.Path(sys.argv[1]))
