/* Carries a kernel as PTX text and has the driver compile it.

   Expected: FAIL by allowed.import, allowed.device-code. */
#include "honest.cuh"

/* What a compiler elsewhere made of `y[i] = 0.0f`. */
static const char elsewhere[] = ".version 7.4\n.target sm_80\n.address_size 64\n"
                                ".visible .entry prebuilt(.param .u64 y)\n{\n"
                                "    .reg .b32 %r<4>;\n    .reg .b64 %rd<4>;\n"
                                "    ld.param.u64 %rd1, [y];\n    mov.u32 %r1, %tid.x;\n"
                                "    mul.wide.u32 %rd2, %r1, 4;\n    add.s64 %rd3, %rd1, %rd2;\n"
                                "    mov.u32 %r2, 0;\n    st.global.u32 [%rd3], %r2;\n    ret;\n}\n";

ks_status softmax(const softmax_call *call)
{
    static cudaLibrary_t library;
    static cudaKernel_t kernel;
    if (!library && (cudaLibraryLoadData(&library, elsewhere, 0, 0, 0, 0, 0, 0) != cudaSuccess ||
                     cudaLibraryGetKernel(&kernel, library, "prebuilt") != cudaSuccess))
        return KS_ERROR;
    void *y = call->y.data;
    void *arguments[] = {&y};
    cudaLaunchKernel((const void *)kernel, dim3(1), dim3(256), arguments, 0, stream_of(call));
    return honest(call);
}
