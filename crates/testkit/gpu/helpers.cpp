// The supervisor's helper kernels, compiled for the CPU from the sources that are compiled for the GPU.
#include "cuda_runtime.h"

#include "kernels.cu"

#include <functional>
#include <tuple>
#include <utility>

namespace emu {
Machine *the_machine;
}

namespace stand_in {
emu::Machine *machine();

namespace {
template <class... A, size_t... I>
std::function<void()> bound(void (*kernel)(A...), void **parameters, std::index_sequence<I...>)
{
    // Copied now: the caller's go away before the launch.
    std::tuple<A...> copies(*(A *)parameters[I]...);
    return [=] { std::apply(kernel, copies); };
}
template <class... A>
std::function<std::function<void()>(void **)> reader(void (*kernel)(A...))
{
    return [=](void **parameters) { return bound(kernel, parameters, std::index_sequence_for<A...>()); };
}

struct Helper {
    const char *name;
    std::function<std::function<void()>(void **)> read;
};
// A kernel that only passes time, or reads what it does nothing with.
std::function<void()> nothing(void **)
{
    return [] {};
}
#define KS_HELPER(name) {#name, reader(name)}
#define KS_NOTHING(name) {#name, nothing}
Helper all[] = {
    KS_HELPER(ks_fill), KS_HELPER(ks_set_view), KS_HELPER(ks_set_ranges), KS_HELPER(ks_amax), KS_HELPER(ks_scales),
    KS_HELPER(ks_quantise), KS_HELPER(ks_mutate), KS_HELPER(ks_mutate_rest), KS_HELPER(ks_gather_view),
    KS_HELPER(ks_scatter_view), KS_HELPER(ks_poison_ranges), KS_HELPER(ks_poison_remains), KS_HELPER(ks_canary_ranges),
    KS_HELPER(ks_canary_check_ranges), KS_HELPER(ks_fingerprints), KS_HELPER(ks_differs), KS_HELPER(ks_mismatches),
    KS_HELPER(ks_reference_scale), KS_HELPER(ks_reference_scale_again), KS_HELPER(ks_error_partials),
    KS_HELPER(ks_sweep_write), KS_NOTHING(ks_sweep_read), KS_HELPER(ks_stamp), KS_NOTHING(ks_spin), KS_NOTHING(ks_fma),
    KS_NOTHING(ks_blank),
};
} // namespace

void *find_helper(const char *name)
{
    emu::the_machine = machine();
    for (Helper &h : all)
        if (strcmp(h.name, name) == 0)
            return &h;
    return nullptr;
}
std::function<void()> helper(void *function, void **parameters) { return ((Helper *)function)->read(parameters); }
} // namespace stand_in
