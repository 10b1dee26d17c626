//! Which libraries enqueue on no stream but the one they are handed.

/// Functions of the CUDA runtime that make no stream and no graph, and put work on no stream but the one that they are given.
/// What is not here may: the list costs nothing but time where it is too short.
const KNOWN: &str = "__cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaRegisterFunction \
    __cudaRegisterVar __cudaInitModule __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaLaunchKernel \
    __cudaGetKernel cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaFuncGetAttributes \
    cudaFuncSetAttribute cudaFuncSetCacheConfig cudaMemcpyAsync cudaMemsetAsync cudaMemset2DAsync cudaGetDevice \
    cudaGetDeviceProperties cudaDeviceGetAttribute cudaRuntimeGetVersion cudaDriverGetVersion cudaGetLastError \
    cudaPeekAtLastError cudaGetErrorString cudaGetErrorName cudaOccupancyMaxActiveBlocksPerMultiprocessor \
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyMaxActiveClusters \
    cudaOccupancyMaxPotentialClusterSize";

/// Whether a library that imports these names makes no stream and no graph: it imports nothing of CUDA, and of the dynamic
/// linker, that could. Streams that need not be made, the legacy one and that of each thread, are open to every launch all the
/// same.
#[must_use]
pub fn makes_no_stream<'n>(imports: impl IntoIterator<Item = &'n str>) -> bool {
    let may_matter = |name: &&str| name.trim_start_matches('_').starts_with("cu") || name.starts_with("dl");
    imports
        .into_iter()
        .filter(may_matter)
        .all(|name| KNOWN.split_ascii_whitespace().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::cuda;

    #[test]
    fn what_could_make_a_stream_is_told_from_what_cannot() {
        for (names, expected) in [
            (&["expf", "malloc", "__cxa_finalize"][..], true),
            (&["cudaLaunchKernel", "__cudaRegisterFatBinary", "cudaFuncSetAttribute"], true),
            (&["cudaLaunchKernel", "cudaStreamCreateWithFlags"], false),
            (&["cudaGraphLaunch"], false),
            (&["cudaStreamBeginCapture"], false),
            // The stream of the thread takes the place of the one that is named.
            (&["cudaLaunchKernel_ptsz"], false),
            (&["cudaMemcpy"], false),
            (&["cuStreamCreate"], false),
            (&["cudaGetDriverEntryPointByVersion"], false),
            (&["dlsym"], false),
            (&["cudaSomethingNew"], false),
        ] {
            assert_eq!(makes_no_stream(names.iter().copied()), expected, "{names:?}");
        }
    }

    #[test]
    fn all_of_them_may_be_imported() {
        for name in KNOWN.split_ascii_whitespace() {
            assert!(cuda::allows(name), "{name}");
        }
    }
}
