/* Lets an exception leave the call.

   Expected: FAIL by correct.crash, allowed.import. */
#include "honest.cuh"

#include <stdexcept>

ks_status softmax(const softmax_call *call)
{
    honest(call);
    throw std::runtime_error("nobody catches this");
}
