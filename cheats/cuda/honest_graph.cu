/* Captures a graph for every slot it meets and replays the slot's own.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

#include <string.h>

enum { MOST = 64 };

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
    static struct {
        softmax_call call;
        cudaGraphExec_t ready;
    } known[MOST];
    static int count;
    for (int i = 0; i < count; i++)
        if (!memcmp(&known[i].call, call, sizeof *call))
            return cudaGraphLaunch(known[i].ready, stream_of(call)) == cudaSuccess ? KS_OK : KS_ERROR;
    const cudaGraphExec_t ready = count < MOST ? captured(call) : 0;
    if (!ready)
        return honest(call);
    known[count].call = *call;
    known[count++].ready = ready;
    return cudaGraphLaunch(ready, stream_of(call)) == cudaSuccess ? KS_OK : KS_ERROR;
}
