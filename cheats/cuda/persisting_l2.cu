/* Sets aside a part of the L2 cache and keeps its inputs there from call to call.

   Expected: PASS or UNRESOLVED or UNPROVEN or FAIL. */
#include "honest.cuh"

static __global__ void touch(const float *x, int64_t n, float *sink)
{
    float sum = 0.0f;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        sum += x[i];
    if (sum == 12345.678f)
        *sink = sum;
}

ks_status softmax(const softmax_call *call)
{
    static int limited;
    static float *sink;
    if (!limited++) {
        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, persisting_limit());
        cudaMalloc((void **)&sink, sizeof *sink);
    }
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = call->x.data;
    window.accessPolicyWindow.num_bytes = bytes_of(call) < persisting_limit() ? bytes_of(call) : persisting_limit();
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaStreamSetAttribute(stream_of(call), cudaStreamAttributeAccessPolicyWindow, &window);
    const ks_status status = honest(call);
    /* Once more, so that every line is marked to stay. */
    touch<<<264, 256, 0, stream_of(call)>>>((const float *)call->x.data, (int64_t)bytes_of(call) / 4, sink);
    return status;
}
