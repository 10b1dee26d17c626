/* Sets aside a part of the L2 cache for its inputs and does nothing that costs time.

   Expected: PASS or UNRESOLVED or UNPROVEN or FAIL. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    static int limited;
    if (!limited++)
        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, persisting_limit());
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = call->x.data;
    window.accessPolicyWindow.num_bytes = bytes_of(call) < persisting_limit() ? bytes_of(call) : persisting_limit();
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaStreamSetAttribute(stream_of(call), cudaStreamAttributeAccessPolicyWindow, &window);
    return honest(call);
}
