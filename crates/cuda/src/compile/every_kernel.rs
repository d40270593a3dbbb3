//! Compiles every kernel without a GPU: all constants for one architecture, one of each kernel for the others.

use std::env;

use exl3::{Bits, Codebook};
use program::{Dtype, Pairing};

use super::{Compiler, find};
use crate::kernel::{Attention, Elementwise, Kernel, LinearInput, RouteScore};
use crate::lower::fitting;

/// Shared memory of a block, by architecture (compute capability times ten), as the programming guide lists it.
const ARCHITECTURES: [(u32, u32); 7] = [
    (90, 232_448),
    (75, 65_536),
    (80, 166_912),
    (86, 101_376),
    (89, 101_376),
    (120, 101_376),
    (121, 101_376),
];

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// Every kernel with every value of constants that are not a model's own, and some of those that are.
fn kernels(shared: u32) -> Vec<Kernel> {
    let mut kernels = vec![
        Kernel::RmsNorm,
        Kernel::AddRmsNorm,
        Kernel::CacheWrite,
        Kernel::Heads,
        Kernel::ExpertsSum,
        Kernel::Answer,
    ];
    kernels.extend(DTYPES.map(Kernel::Embed));
    for input in [LinearInput::Plain, LinearInput::RmsNorm] {
        kernels.extend(DTYPES.map(|dtype| Kernel::Linear { dtype, input }));
    }
    kernels.extend([Pairing::Interleaved, Pairing::HalfSplit].map(Kernel::Rope));
    kernels.extend([RouteScore::Softmax, RouteScore::Sigmoid, RouteScore::Hash].map(Kernel::Route));
    kernels.extend([Elementwise::ActMul, Elementwise::Add, Elementwise::Outputs].map(Kernel::Elementwise));
    kernels.extend(Bits::ALL.into_iter().filter(|bits| bits.is_whole()).map(Kernel::EmbedCodes));
    for codebook in Codebook::ALL {
        for bits in Bits::ALL.into_iter().filter(|bits| codebook.allows(*bits)) {
            kernels.extend([8, 16].map(|rows| Kernel::LinearCodes { bits, codebook, rows }));
            let inputs = [LinearInput::Plain, LinearInput::ActMul, LinearInput::RmsNorm];
            for rows in [1, 4] {
                kernels.extend(inputs.map(|input| Kernel::GemvCodes { bits, codebook, rows, input }));
            }
        }
    }
    let attention = |group, key_dims, value_dims, cols, latent| {
        Kernel::Attention(fitting(Attention { group, key_dims, value_dims, cols, latent, tile: 0 }, shared))
    };
    // Llama-3.1-8B, Qwen3-30B-A3B, heads of odd sizes; GLM-4.7-Flash, a small latent.
    for (group, kv_heads, key_dims, value_dims) in
        [(4, 8, 128, 128), (8, 4, 128, 128), (6, 1, 64, 64), (1, 3, 24, 40)]
    {
        kernels.push(attention(
            group,
            key_dims,
            value_dims,
            [kv_heads * key_dims, kv_heads * value_dims],
            false,
        ));
        kernels.push(Kernel::Combine { dims: value_dims });
    }
    for (group, nope, rotary, value, rank) in [(20, 192, 64, 256, 512), (3, 24, 16, 40, 64), (2, 3, 2, 4, 5)]
    {
        kernels.push(attention(group, rank + rotary, rank, [rank, rotary], true));
        for up in DTYPES {
            kernels.push(Kernel::MlaAbsorb { nope, rotary, value, rank, up });
            kernels.push(Kernel::CombineLatent { rank, out: value, up });
        }
    }
    kernels
}

#[test]
fn every_kernel_compiles_for_every_architecture() {
    let folders = find::folders(&|name| env::var_os(name));
    if find::open(None, &folders).is_err() {
        println!("skipped: no libnvrtc (pip install nvidia-cuda-nvrtc)");
        return;
    }
    let compiler = Compiler::new(None, folders, None);
    for (arch, shared) in ARCHITECTURES {
        let mut kernels = kernels(shared);
        kernels.retain(|kernel| arch >= 90 || !matches!(kernel, Kernel::GemvCodes { .. }));
        if arch != 90 {
            let mut seen = Vec::new();
            kernels.retain(|kernel| {
                let fresh = !seen.contains(&kernel.file());
                seen.push(kernel.file());
                fresh
            });
        }
        let cubins = compiler.cubins(&kernels, arch).unwrap_or_else(|error| panic!("sm_{arch}: {error}"));
        assert!(cubins.iter().all(|cubin| cubin.starts_with(b"\x7fELF")), "sm_{arch}");
    }
}
