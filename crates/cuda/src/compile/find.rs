//! Where libnvrtc lies.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use program::Result;

use crate::driver::{Nvrtc, fault};

/// Names by which the loader may know the library, newest first.
const LOADER_NAMES: [&str; 5] =
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];

/// Folders of a CUDA toolkit that hold libraries.
const TOOLKIT_FOLDERS: [&str; 4] = ["lib64", "lib", "bin", "bin/x64"];

/// Folders of a Python environment's packages that hold the library when pip installed it.
const PACKAGE_FOLDERS: [&str; 4] =
    ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cu13/bin", "nvidia/cuda_nvrtc/bin"];

/// Folders to look into, from the environment: the toolkit at `CUDA_PATH`, then the Python environment that is active
/// or on the `PATH`, then packages of the user and the system.
pub(crate) fn folders(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from);
    let mut folders: Vec<PathBuf> = Vec::new();
    for toolkit in ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(path) {
        folders.extend(TOOLKIT_FOLDERS.iter().map(|folder| toolkit.join(folder)));
    }
    let mut environments: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path).collect();
    if let Some(list) = variable("PATH") {
        let with_python = std::env::split_paths(&list).filter(|folder| folder.join("python3").exists());
        environments.extend(with_python.filter_map(|folder| folder.parent().map(Path::to_owned)));
    }
    environments.extend(path("HOME").map(|home| home.join(".local")));
    environments.push("/usr/local".into());
    let mut packages: Vec<PathBuf> =
        variable("PYTHONPATH").map_or_else(Vec::new, |list| std::env::split_paths(&list).collect());
    packages.extend(environments.iter().flat_map(|environment| packages_of(environment)));
    packages.push("/usr/lib/python3/dist-packages".into());
    for packages in packages {
        folders.extend(PACKAGE_FOLDERS.iter().map(|folder| packages.join(folder)));
    }
    folders
}

/// The folders of packages of a Python environment, one for each version of Python.
fn packages_of(environment: &Path) -> Vec<PathBuf> {
    let versions = ["lib", "lib64"].into_iter().flat_map(|lib| entries(&environment.join(lib)));
    let pythons = versions.filter(|(name, _)| name.starts_with("python3"));
    let mut folders: Vec<PathBuf> = pythons
        .flat_map(|(_, path)| ["site-packages", "dist-packages"].map(|packages| path.join(packages)))
        .collect();
    folders.push(environment.join("Lib/site-packages"));
    folders
}

/// Names and paths in a folder, none if it cannot be read: it is one of many that may not exist.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

/// The library's file in a folder: that of the newest version.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let is_library = |name: &str| {
        (name.starts_with("libnvrtc.so") || name.starts_with("nvrtc64_") && name.ends_with(".dll"))
            && !name.contains(".alt.")
    };
    entries(folder).into_iter().filter(|(name, _)| is_library(name)).max().map(|(_, path)| path)
}

/// Opens the library: `given` (a file, or a folder that has it) and no other, or the first one found in `folders` or by
/// the loader.
///
/// # Errors
/// If there is none: what to do about it.
pub(crate) fn open(given: Option<&Path>, folders: &[PathBuf]) -> Result<Nvrtc> {
    if let Some(given) = given {
        let file = if given.is_dir() { library_in(given) } else { Some(given.to_owned()) };
        let opened = file.and_then(|file| Nvrtc::open(file.as_os_str()));
        return opened.ok_or_else(|| fault(format!("{} is no libnvrtc and has none in it", given.display())));
    }
    let in_folders = folders.iter().filter_map(|folder| library_in(folder)).map(PathBuf::into_os_string);
    in_folders.chain(LOADER_NAMES.map(OsString::from)).find_map(|path| Nvrtc::open(&path)).ok_or_else(|| {
        fault(
            "kernels have to be compiled for this GPU and NVIDIA's compiler library (libnvrtc) was not found; install \
             it with `pip install nvidia-cuda-nvrtc`, or say where it is with --nvrtc",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_packages_is_found_behind_an_environment_and_the_newest_library_in_it() {
        let home = tempfile::tempdir().unwrap();
        let lib = home.path().join("env/lib/python3.12/site-packages/nvidia/cu13/lib");
        fs::create_dir_all(&lib).unwrap();
        for name in ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"] {
            fs::write(lib.join(name), b"").unwrap();
        }
        let environment = home.path().join("env").into_os_string();
        let folders = folders(&|name| (name == "VIRTUAL_ENV").then(|| environment.clone()));
        assert_eq!(folders.iter().find_map(|folder| library_in(folder)), Some(lib.join("libnvrtc.so.13")));
    }

    #[test]
    fn a_given_file_that_is_no_library_is_refused_by_name() {
        let error = open(Some(Path::new("/no/such/libnvrtc.so")), &[]).unwrap_err().to_string();
        assert_eq!(error, "cuda: /no/such/libnvrtc.so is no libnvrtc and has none in it");
    }
}
