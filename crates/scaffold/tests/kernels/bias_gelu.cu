// Fused bias and GELU, as an extension for Python.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
#include <torch/extension.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")

template <typename scalar_t>
__device__ __forceinline__ scalar_t gelu(scalar_t v) {
    return scalar_t(0.5) * v * (scalar_t(1) + erff(v * scalar_t(0.70710678)));
}

template <typename scalar_t>
__global__ void bias_gelu_kernel(const scalar_t *__restrict__ x, const scalar_t *__restrict__ bias,
                                 scalar_t *__restrict__ out, int64_t rows, int64_t cols) {
    const int64_t row = blockIdx.y;
    const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < cols) {
        out[row * cols + col] = gelu(x[row * cols + col] + bias[col]);
    }
}

torch::Tensor bias_gelu(torch::Tensor x, torch::Tensor bias) {
    CHECK_INPUT(x);
    CHECK_INPUT(bias);
    auto out = torch::empty_like(x);
    const int64_t rows = x.size(0);
    const int64_t cols = x.size(1);
    const int threads = 256;
    const dim3 blocks((cols + threads - 1) / threads, rows);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "bias_gelu", ([&] {
        bias_gelu_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, cols);
    }));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("bias_gelu", &bias_gelu, "fused bias and GELU");
}
