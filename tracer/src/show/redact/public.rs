//! Knows what identifies nobody: files of public packages, and keys of frameworks.
//!
//! Readers of a redacted report need them.

/// Packages that anybody can install, and packages of Python's standard library.
const PACKAGES: [&str; 62] = [
    "PIL",
    "accelerate",
    "aiohttp",
    "asyncio",
    "cloudpickle",
    "collections",
    "concurrent",
    "ctypes",
    "cupy",
    "datasets",
    "deepspeed",
    "encodings",
    "fastapi",
    "flash_attn",
    "fsspec",
    "grpc",
    "gymnasium",
    "huggingface_hub",
    "hydra",
    "importlib",
    "jax",
    "jaxlib",
    "joblib",
    "json",
    "keras",
    "lightgbm",
    "lightning",
    "logging",
    "matplotlib",
    "megatron",
    "msgpack",
    "multiprocessing",
    "numba",
    "numpy",
    "omegaconf",
    "openrlhf",
    "pandas",
    "peft",
    "polars",
    "pyarrow",
    "pydantic",
    "pytorch_lightning",
    "ray",
    "safetensors",
    "scipy",
    "sglang",
    "sklearn",
    "starlette",
    "sympy",
    "tensordict",
    "tensorflow",
    "tokenizers",
    "torch",
    "torchaudio",
    "torchdata",
    "torchvision",
    "transformers",
    "triton",
    "trl",
    "verl",
    "vllm",
    "xgboost",
];

/// Keys of frameworks and of Ray that are in no table of settings.
pub(super) const KEYS: [&str; 3] = [
    "custom_reward_function.name",
    "custom_reward_function.path",
    "object_store_memory",
];

/// Returns a path from its public package on, if it is a file of code of such a package. A path
/// that does not begin with the package counts only below a folder of installed packages.
pub(super) fn file(path: &str) -> Option<&str> {
    let installed = ["/site-packages/", "/dist-packages/"];
    let below = installed.iter().find_map(|folder| path.rsplit_once(folder));
    let below = below.map_or(path, |(_, below)| below);
    let (package, _) = below.split_once('/')?;
    let is_code = [".py", ".pyx", ".pxi", ".pyi", ".so"]
        .iter()
        .any(|end| below.ends_with(end));
    (is_code && PACKAGES.contains(&package) && !below.contains("..")).then_some(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_public_packages_are_known() {
        let files = [
            "/v/lib/python3.11/site-packages/verl/workers/x.py",
            "torch/nn/linear.py",
            "multiprocessing/queues.py",
            "/home/lin/verl/x.py",
            "/v/site-packages/acme/x.py",
            "acme/x.py",
            "verl/../lin/x.py",
            "torch/data.bin",
        ]
        .map(file);
        let known = [
            Some("verl/workers/x.py"),
            Some("torch/nn/linear.py"),
            Some("multiprocessing/queues.py"),
        ];
        assert_eq!(files[..3], known);
        assert!(files[3..].iter().all(Option::is_none), "{files:?}");
    }
}
