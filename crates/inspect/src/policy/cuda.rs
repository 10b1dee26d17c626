//! What a candidate of the `cuda` target may import of the CUDA runtime, and what it may not, with the reason.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::Refusal;
use super::denied::{self, Group};
use crate::pattern;

/// Libraries that may be loaded beside those of the `cpu` target.
pub(super) const NEEDED: &[&str] = &["libcudart.so.12", "libcudart.so.13"];

/// Functions that a call needs: launches, memory on the device it was given, streams, events, graphs, occupancy.
/// Forms for the per-thread default stream (`_ptsz`, `_ptds`) and versions (`_v2`) follow.
const RUNTIME: &str = "__cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary \
    __cudaRegisterFunction __cudaRegisterVar __cudaInitModule __cudaPushCallConfiguration __cudaPopCallConfiguration \
    __cudaLaunchKernel __cudaGetKernel \
    cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel \
    cudaFuncGetAttributes cudaFuncSetAttribute cudaFuncSetCacheConfig cudaFuncSetSharedMemConfig cudaFuncGetName \
    cudaFuncGetParamInfo cudaGetSymbolAddress cudaGetSymbolSize \
    cudaMalloc cudaMallocAsync cudaMallocFromPoolAsync cudaMallocPitch cudaMalloc3D cudaFree cudaFreeAsync \
    cudaMallocHost cudaHostAlloc cudaFreeHost cudaHostGetDevicePointer cudaHostGetFlags cudaMemGetInfo \
    cudaPointerGetAttributes cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolSetAttribute cudaMemPoolGetAttribute \
    cudaMemPoolTrimTo cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool cudaDeviceGraphMemTrim \
    cudaDeviceGetGraphMemAttribute cudaDeviceSetGraphMemAttribute \
    cudaMemcpy cudaMemcpyAsync cudaMemcpy2D cudaMemcpy2DAsync cudaMemcpy3D cudaMemcpy3DAsync cudaMemcpyBatchAsync \
    cudaMemcpyToSymbol cudaMemcpyToSymbolAsync cudaMemcpyFromSymbol cudaMemcpyFromSymbolAsync \
    cudaMemset cudaMemsetAsync cudaMemset2D cudaMemset2DAsync cudaMemset3D cudaMemset3DAsync \
    cudaMallocArray cudaMalloc3DArray cudaFreeArray cudaMemcpy2DToArray cudaMemcpy2DToArrayAsync \
    cudaCreateChannelDesc cudaCreateTextureObject cudaDestroyTextureObject cudaCreateSurfaceObject \
    cudaDestroySurfaceObject \
    cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamQuery \
    cudaStreamSynchronize cudaStreamWaitEvent cudaStreamGetPriority cudaStreamGetFlags cudaStreamGetId \
    cudaStreamGetDevice cudaStreamIsCapturing cudaStreamGetCaptureInfo cudaStreamBeginCapture \
    cudaStreamBeginCaptureToGraph cudaStreamEndCapture cudaStreamUpdateCaptureDependencies cudaStreamSetAttribute \
    cudaStreamGetAttribute cudaStreamCopyAttributes cudaThreadExchangeStreamCaptureMode \
    cudaEventCreate cudaEventCreateWithFlags cudaEventDestroy cudaEventQuery cudaEventRecord cudaEventRecordWithFlags \
    cudaEventSynchronize cudaEventElapsedTime \
    cudaGetDevice cudaSetDevice cudaGetDeviceCount cudaGetDeviceProperties cudaGetDeviceFlags cudaDeviceGetAttribute \
    cudaDeviceGetLimit cudaDeviceSetLimit cudaDeviceSynchronize cudaDeviceGetStreamPriorityRange \
    cudaDeviceGetCacheConfig cudaDeviceGetSharedMemConfig cudaCtxResetPersistingL2Cache cudaRuntimeGetVersion \
    cudaDriverGetVersion cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName";

static EXACT: LazyLock<HashSet<&str>> = LazyLock::new(|| RUNTIME.split_ascii_whitespace().collect());

/// Families; what is refused of them by name is refused first.
const FAMILIES: &[&str] = &["cudaGraph[A-Z]*", "cudaOccupancy*"];

/// Allowed, and worth a word to whoever reads the verdict: they outlive the call.
const NOTED: &[(&str, &str)] = &[
    ("cudaDeviceSetLimit", "changes a limit of the whole context; carve-outs of the L2 cache are reset"),
    ("cudaStreamSetAttribute", "may set a window of persisting L2 cache, which is reset"),
    ("cudaSetDevice", "chooses a device; the call runs on the one that it names"),
];

const IMPORTS: &[Group] = &[
    Group {
        names: &[
            "cudaGetDriverEntryPoint*",
            "__cudaGetProcAddress*",
            "cudaGetExportTable*",
            "cudaGetFuncBySymbol*",
            "cu[A-Z]*",
        ],
        refusal: Refusal {
            reason: "reaches the driver past the CUDA runtime, where nothing of it can be inspected",
            next: "call the runtime's own function (`cuda…`)",
        },
    },
    Group {
        names: &[
            "cudaLibrary*",
            "cudaGetKernel*",
            "cudaKernelSetAttributeForDevice*",
            "__cudaRegisterUnifiedTable",
        ],
        refusal: Refusal {
            reason: "loads or takes GPU code at run time",
            next: "define the kernel in the candidate's own sources and launch it by name",
        },
    },
    Group {
        names: &["__cudaRegisterLinkedBinary*"],
        refusal: Refusal {
            reason: "is relocatable GPU code that nobody linked",
            next: "build without -rdc=true, as one source file",
        },
    },
    Group {
        names: &[
            "nvrtc*",
            "nvJitLink*",
            "__nvJitLink*",
            "nvPTXCompiler*",
            "nvFatbin*",
            "nvvm[A-Z]*",
            "nvjpeg*",
        ],
        refusal: Refusal {
            reason: "makes GPU code at run time",
            next: "instantiate the variants that the call needs when the candidate is built",
        },
    },
    Group {
        names: &[
            "cudaLaunchHostFunc*",
            "cudaStreamAddCallback*",
            "cudaGraphAddHostNode*",
            "cudaGraphHostNode*",
            "cudaGraphExecHostNode*",
            "cudaUserObject*",
            "cudaGraphRetainUserObject*",
            "cudaGraphReleaseUserObject*",
            "cudaDeviceRegisterAsyncNotification*",
            "cudaDeviceUnregisterAsyncNotification*",
            "cudaLogsRegisterCallback*",
        ],
        refusal: Refusal {
            reason: "runs host code when the call has returned",
            next: "do the host's part in the call itself, before it returns",
        },
    },
    Group {
        names: &["cudaGraphAddNode*", "cudaGraphNodeSetParams*", "cudaGraphExecNodeSetParams*"],
        refusal: Refusal {
            reason: "can add nodes that run host code",
            next: "use the functions for one kind of node (`cudaGraphAddKernelNode`), or capture a stream",
        },
    },
    Group {
        names: &[
            "cudaIpc*",
            "cudaMemPoolExport*",
            "cudaMemPoolImport*",
            "cudaMemPoolSetAccess*",
            "cudaImportExternal*",
            "cudaExternal*",
            "cudaDestroyExternal*",
            "cudaSignalExternal*",
            "cudaWaitExternal*",
            "cudaGraph*ExternalSemaphores*",
            "cudaDeviceEnablePeerAccess",
            "cudaMemcpyPeer*",
            "cudaMemcpy3DPeer*",
        ],
        refusal: Refusal {
            reason: "shares memory with another process or device",
            next: "use the tensors and the workspace of the call",
        },
    },
    Group {
        names: &["cudaProfiler*", "cupti*", "nvtx*", "nvperf*", "NVPW_*"],
        refusal: Refusal {
            reason: "drives a profiler",
            next: "remove the call; profile the candidate outside of an evaluation",
        },
    },
    Group {
        names: &[
            "cudaDeviceReset*",
            "cudaSetDeviceFlags",
            "cudaSetValidDevices",
            "cudaInitDevice*",
            "cudaDeviceSetMemPool",
            "cudaDeviceSetCacheConfig",
            "cudaDeviceSetSharedMemConfig",
        ],
        refusal: Refusal {
            reason: "changes the context that the evaluator measures in",
            next: "remove the call; settings of one kernel are `cudaFuncSetAttribute`'s",
        },
    },
    Group {
        names: &["cudaGraphDebugDotPrint", "cudaLogs*"],
        refusal: Refusal { reason: "touches files or the driver's log", next: "remove the call" },
    },
    Group {
        names: &[
            "cudaGraphics*",
            "cudaGL*",
            "cudaEGL*",
            "cudaVDPAU*",
            "cudaEventCreateFromEGLSync",
            "hip[A-Z]*",
            "cl[A-Z]*",
        ],
        refusal: Refusal { reason: "uses another programming interface of the GPU", next: "remove the call" },
    },
    Group {
        names: &["nvml[A-Z]*"],
        refusal: Refusal { reason: "reads or sets the machine's GPUs", next: "remove the call" },
    },
    Group {
        names: &[
            "cublas*",
            "cudnn*",
            "cusolver*",
            "cusparse*",
            "cufft*",
            "curand*",
            "cutensor*",
            "cutlass*",
            "_ZN7cutlass*",
            "_ZN3cub*",
            "_ZN6thrust*",
            "nccl[A-Z]*",
            "nvshmem*",
            "npp[a-z]*_*",
        ],
        refusal: Refusal {
            reason: "calls somebody else's kernels",
            next: "write the computation, or let the problem allow it with constraints.allow_imports",
        },
    },
];

/// The refusal of an import, if it is refused by name.
pub(super) fn denied(name: &str) -> Option<Refusal> {
    denied::of(IMPORTS, name)
}

/// Whether `name` is on the list.
pub(super) fn allows(name: &str) -> bool {
    EXACT.contains(plain(name)) || pattern::first_match(FAMILIES, name).is_some()
}

/// What to say of an allowed import that outlives the call.
pub(super) fn noted(name: &str) -> Option<&'static str> {
    let name = plain(name);
    NOTED.iter().find(|(n, _)| *n == name).map(|(_, what)| *what)
}

/// `cudaMemcpyAsync_ptsz` → `cudaMemcpyAsync`, `cudaGetDeviceProperties_v2` → `cudaGetDeviceProperties`.
fn plain(name: &str) -> &str {
    let name = ["_ptsz", "_ptds"].iter().find_map(|s| name.strip_suffix(s)).unwrap_or(name);
    match name.rsplit_once("_v") {
        Some((base, version)) if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) => base,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{ImportRule, Policy};

    #[test]
    fn imports() {
        let policy = Policy::cuda("op");
        for (expected, names) in [
            (
                'a',
                "__cudaRegisterFatBinary __cudaPushCallConfiguration __cudaLaunchKernel_ptsz cudaLaunchKernel \
                 cudaLaunchKernelExC cudaFuncSetAttribute cudaMalloc cudaMallocAsync_ptsz cudaMemcpyAsync \
                 cudaMemsetAsync cudaStreamBeginCapture cudaGraphInstantiate cudaGraphLaunch cudaGraphAddKernelNode \
                 cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaDeviceGetAttribute cudaGetDeviceProperties_v2 \
                 cudaGetLastError cudaDeviceSetLimit cudaStreamGetCaptureInfo_v2_ptsz memcpy _Znwm __cxa_guard_acquire sqrtf \
                 pthread_create cudaSetDevice",
            ),
            (
                'd',
                "cudaGetDriverEntryPoint cudaGetDriverEntryPointByVersion_ptsz cudaGetExportTable cuInit cuModuleLoadData \
                 cuLaunchKernel cudaLibraryLoadData cudaLibraryGetKernel cudaKernelSetAttributeForDevice nvrtcCompileProgram \
                 nvJitLinkCreate cudaIpcOpenMemHandle cudaProfilerStart cudaDeviceReset cudaLaunchHostFunc \
                 cudaLaunchHostFunc_ptsz cudaStreamAddCallback cudaGraphAddHostNode cudaGraphAddNode cudaUserObjectCreate \
                 cudaGraphDebugDotPrint cudaGraphAddExternalSemaphoresSignalNode cublasGemmEx cudnnCreate dlopen dlsym \
                 socket open fork nvmlInit_v2 hipMalloc cudaMemPoolExportPointer cblas_sgemm",
            ),
            (
                'u',
                "cudaSomethingNew cudaMallocManaged helper cuda_helper __cudaSomething cudaMemcpyAsync_other",
            ),
        ] {
            for name in names.split_whitespace() {
                let kind = match policy.import(name) {
                    ImportRule::Allowed => 'a',
                    ImportRule::Denied(_) => 'd',
                    ImportRule::Unlisted => 'u',
                };
                assert_eq!(kind, expected, "{name}");
            }
        }
        assert!(matches!(Policy::cpu("op").import("cudaMalloc"), ImportRule::Denied(_)));
        assert_eq!(policy.allow_imports(["cublas*"]).import("cublasGemmEx"), ImportRule::Allowed);
    }

    #[test]
    fn libraries_and_notes() {
        let (cuda, cpu) = (Policy::cuda("op"), Policy::cpu("op"));
        for name in ["libcudart.so.13", "libcudart.so.12", "libstdc++.so.6", "libc.so.6"] {
            assert!(cuda.needed(name), "{name}");
        }
        for name in ["libcuda.so.1", "libcudart.so.11", "libcudart.so", "libcublas.so.13", "libnvrtc.so.13"] {
            assert!(!cuda.needed(name), "{name}");
        }
        assert!(!cpu.needed("libcudart.so.13"));
        assert!(cuda.noted("cudaDeviceSetLimit").is_some_and(|w| w.contains("limit")));
        assert!(cuda.noted("cudaMalloc").is_none() && cpu.noted("cudaDeviceSetLimit").is_none());
    }
}
