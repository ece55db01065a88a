//! Tells the frames of a job, whose lines are reported, from those of Ray and of libraries.
//!
//! Mirrors the layout of the package `ray` from 2.9 to 2.60. Ray's libraries for users (`ray.data`,
//! `ray.train`, …) count as the job's.

use std::path::Path;

use crate::event::PythonFrame;

/// Folders and files below `ray/` that run or wrap users' code.
const WRAPPERS: [&str; 8] = [
    "_private/",
    "_raylet",
    "includes/",
    "util/tracing/",
    "actor.py",
    "remote_function.py",
    "core/",
    "runtime_env/",
];

/// Libraries that allocate on behalf of their caller.
const LIBRARIES: [&str; 11] = [
    "numpy",
    "pandas",
    "pyarrow",
    "torch",
    "scipy",
    "polars",
    "PIL",
    "ray",
    "cloudpickle",
    "sklearn",
    "msgpack",
];

/// Libraries that run a model for their caller.
const MODELS: [&str; 3] = ["transformers", "tensordict", "accelerate"];

/// Whether a frame belongs to Ray's own code that runs and wraps tasks, its Cython frames included.
pub fn is_ray_code(file: &str) -> bool {
    let cython = matches!(
        Path::new(file).extension().and_then(|end| end.to_str()),
        Some("pyx" | "pxi" | "pxd")
    );
    cython && file.contains("ray")
        || package(file, "ray")
            .is_some_and(|inside| WRAPPERS.iter().any(|one| inside.starts_with(one)))
}

/// Whether a frame belongs to the standard library, or to a library that allocates for its caller.
pub(crate) fn is_library(file: &str) -> bool {
    let installed = file.contains("/site-packages/") || file.contains("/dist-packages/");
    let standard = file.starts_with("<frozen") || file.contains("/lib/python3") && !installed;
    standard || LIBRARIES.iter().any(|name| package(file, name).is_some())
}

/// Whether a file is the user's own: not in an installed package, the standard library or Ray.
pub fn is_user_code(file: &str) -> bool {
    let installed = file.contains("/site-packages/") || file.contains("/dist-packages/");
    !file.is_empty()
        && !file.starts_with('<')
        && !installed
        && !is_library(file)
        && !is_ray_code(file)
}

/// Returns the innermost frame of the user's own code. Without one, returns the innermost frame
/// that belongs to no library, model or code of Ray's own; then the result of [`user_frame`].
pub fn user_or_framework_frame(frames: &[PythonFrame]) -> Option<&PythonFrame> {
    let own = frames.iter().find(|frame| is_user_code(&frame.file));
    let models = |file: &str| MODELS.iter().any(|name| package(file, name).is_some());
    let of_framework = |frame: &&PythonFrame| {
        let file = frame.file.as_str();
        !models(file) && !is_library(file) && !is_ray_code(file)
    };
    let of_framework = || frames.iter().find(of_framework);
    own.or_else(of_framework).or_else(|| user_frame(frames))
}

/// Returns the innermost frame outside of libraries and Ray's own code: a line that its author can
/// change. Without one, returns the running frame.
pub fn user_frame(frames: &[PythonFrame]) -> Option<&PythonFrame> {
    let of_job = frames
        .iter()
        .find(|frame| !is_library(&frame.file) && !is_ray_code(&frame.file));
    of_job.or(frames.first())
}

/// Returns the frame of the user's that called the file of `of`, a frame of the user's too: who gets
/// what is allocated there. `None` if a framework called it.
pub(crate) fn user_caller<'a>(
    frames: &'a [PythonFrame],
    of: &PythonFrame,
) -> Option<&'a PythonFrame> {
    let mut outside = frames.iter().skip_while(|frame| *frame != of);
    let other = |frame: &&PythonFrame| {
        frame.file != of.file && !is_library(&frame.file) && !is_ray_code(&frame.file)
    };
    let caller = outside.find(other).filter(|_| is_user_code(&of.file));
    caller.filter(|caller| is_user_code(&caller.file))
}

/// Returns the part of a path below an installed package.
fn package<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let (_, below) = file
        .rsplit_once("/site-packages/")
        .or_else(|| file.rsplit_once("/dist-packages/"))?;
    below.strip_prefix(name)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "/v/lib/python3.11/site-packages";

    /// Ray's libraries for users, such as `ray.data`, count as the job's.
    #[test]
    fn task_wrappers_are_rays_own_libraries_are_not() {
        for own in [
            "ray/_private/worker.py",
            "ray/_private/workers/default_worker.py",
            "ray/util/tracing/tracing_helper.py",
            "ray/actor.py",
        ] {
            assert!(is_ray_code(&format!("{SITE}/{own}")), "{own}");
        }
        assert!(is_ray_code("python/ray/_raylet.pyx"));
        for job in [
            "ray/data/dataset.py",
            "ray/train/trainer.py",
            "verl/workers/fsdp_workers.py",
        ] {
            assert!(!is_ray_code(&format!("{SITE}/{job}")), "{job}");
        }
        assert!(!is_ray_code("/home/u/ray/_private/train.py"));
    }

    #[test]
    fn user_frame_is_outside_libraries_and_ray() {
        let frame = |file: &str, line| PythonFrame {
            file: file.into(),
            function: "f".into(),
            line,
        };
        let library = frame(&format!("{SITE}/numpy/_core/numeric.py"), 330);
        let own = frame("/home/u/train.py", 33);
        let wrapper = frame("python/ray/_raylet.pyx", 1);
        let frames = [library.clone(), own.clone(), wrapper.clone()];
        assert_eq!(user_frame(&frames), Some(&own));
        assert_eq!(user_frame(&[library.clone(), wrapper]), Some(&library));
        assert_eq!(user_frame(&[]), None);
    }

    #[test]
    fn job_in_site_packages_is_not_a_library() {
        assert!(is_library(&format!("{SITE}/torch/serialization.py")));
        assert!(is_library("/usr/lib/python3.11/json/decoder.py"));
        assert!(is_library("<frozen importlib._bootstrap>"));
        assert!(!is_library(&format!("{SITE}/verl/workers/fsdp_workers.py")));
        assert!(!is_library("/home/u/train.py"));
    }

    #[test]
    fn users_own_line_precedes_installed_ones() {
        let frame = |file: &str| PythonFrame {
            file: file.into(),
            function: "f".into(),
            line: 1,
        };
        let torch = frame(&format!("{SITE}/torch/nn/functional.py"));
        let qwen = frame(&format!(
            "{SITE}/transformers/models/qwen2/modeling_qwen2.py"
        ));
        let verl = frame(&format!("{SITE}/verl/workers/actor/dp_actor.py"));
        let own = frame("/home/u/reward.py");
        let standard = frame("/usr/lib/python3.11/contextlib.py");
        let frames = [torch, qwen, verl.clone(), standard];
        assert_eq!(user_or_framework_frame(&frames), Some(&verl));
        let with_own = [frames.as_slice(), std::slice::from_ref(&own)].concat();
        assert_eq!(user_or_framework_frame(&with_own), Some(&own));
        assert!(!is_user_code("") && !is_user_code("<string>"));
    }
}
