//! Who made a kernel, as far as its name and its caller's file tell.

use serde::Serialize;

/// Where kernels come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `PyTorch`'s own kernels: eager operators.
    Pytorch,
    /// Triton, `torch.compile` included.
    Triton,
    /// cuBLAS and cuBLASLt.
    Cublas,
    /// cuDNN.
    Cudnn,
    /// NCCL.
    Nccl,
    /// Another file.
    Other,
    /// Neither name nor file is known.
    Unknown,
}

impl Source {
    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pytorch => "pytorch",
            Self::Triton => "triton",
            Self::Cublas => "cublas",
            Self::Cudnn => "cudnn",
            Self::Nccl => "nccl",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// Who made the kernel with this name, launched from this file.
///
/// `torch.compile` names its kernels `triton_*`; Triton's launchers are files of their own
/// (`__triton_launcher.cpython-312-x86_64-linux-gnu.so`). cuBLAS names the newer ones `nvjet_*`.
pub fn source(name: Option<&str>, module: Option<&str>) -> Source {
    let file = module.map(|path| path.rsplit('/').next().unwrap_or(path));
    let name_begins = |part: &str| name.is_some_and(|name| name.starts_with(part));
    let file_has = |part: &str| file.is_some_and(|file| file.contains(part));
    if name_begins("triton_") || file_has("triton") {
        Source::Triton
    } else if file_has("libcublas") || name_begins("nvjet_") {
        Source::Cublas
    } else if file_has("libcudnn") {
        Source::Cudnn
    } else if file_has("libnccl") {
        Source::Nccl
    } else if file_has("libtorch") || file_has("libc10") {
        Source::Pytorch
    } else if name.is_some() || file.is_some() {
        Source::Other
    } else {
        Source::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_by_name_and_file() {
        let cases = [
            (
                Some("triton_poi_fused_add_0"),
                Some("/tmp/x/launcher.so"),
                Source::Triton,
            ),
            (
                Some("matmul_kernel"),
                Some("/c/__triton_launcher.cpython-312.so"),
                Source::Triton,
            ),
            (
                Some("nvjet_hsh_64x8"),
                Some("/v/libcublasLt.so.13"),
                Source::Cublas,
            ),
            (None, Some("/v/libcublas.so.12"), Source::Cublas),
            (None, Some("/v/libcudnn_ops.so.9"), Source::Cudnn),
            (None, Some("/v/libnccl.so.2"), Source::Nccl),
            (
                Some("_ZN2at6native4fillE"),
                Some("/t/libtorch_cuda.so"),
                Source::Pytorch,
            ),
            (Some("mine"), Some("/opt/torch/mine.so"), Source::Other),
            (Some("mine"), None, Source::Other),
            (None, None, Source::Unknown),
        ];
        for (name, module, expected) in cases {
            assert_eq!(source(name, module), expected, "{name:?} {module:?}");
        }
    }
}
