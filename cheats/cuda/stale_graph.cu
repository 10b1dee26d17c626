/* Captures its first call and replays that graph ever after, with the pointers of then.

   Expected: FAIL by correct.. */
#include "honest.cuh"

static cudaGraphExec_t captured(const softmax_call *call)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready = 0;
    if (cudaStreamBeginCapture(private_stream(), cudaStreamCaptureModeRelaxed) != cudaSuccess)
        return 0;
    honest_on(call, private_stream());
    if (cudaStreamEndCapture(private_stream(), &graph) != cudaSuccess)
        return 0;
    if (cudaGraphInstantiate(&ready, graph, 0) != cudaSuccess)
        ready = 0;
    cudaGraphDestroy(graph);
    return ready;
}

ks_status softmax(const softmax_call *call)
{
    static cudaGraphExec_t ready;
    if (!ready && !(ready = captured(call)))
        return KS_ERROR;
    return cudaGraphLaunch(ready, stream_of(call)) == cudaSuccess ? KS_OK : KS_ERROR;
}
