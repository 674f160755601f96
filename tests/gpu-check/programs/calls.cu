// A CUDA C++ program that knows how often it calls what, and says so in JSON at its end.
//
// Built with a static CUDA runtime (nvcc's default), with the shared one, and with per-thread
// default streams: the calls are the same, the libraries that see them are not.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t error = (call);                                                     \
        if (error != cudaSuccess) {                                                     \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));              \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

__global__ void fill(float *values, float value, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = value;
}

template <typename T> __global__ void scale(T *values, T factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] *= factor;
}

namespace geometry {
__global__ void shift(double *values, double by, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] += by;
}
} // namespace geometry

__device__ long long symbol;

extern "C" __global__ void plain_name(int *flag) { *flag = 1; }

static const int THREADS = 4, FILLS = 300, SCALES = 200, SHIFTS = 7, PLAINS = 5, EXTENDED = 11;
static const int COOPERATIVE = 3, CAPTURED = 6, REPLAYS = 40, COUNT = 1 << 12;

static void thread_calls() {
    float *values;
    cudaStream_t stream;
    CHECK(cudaMalloc(&values, COUNT * sizeof(float)));
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < FILLS; i++) fill<<<COUNT / 256, 256, 0, stream>>>(values, 1.0f, COUNT);
    for (int i = 0; i < SCALES; i++) scale<float><<<COUNT / 256, 256>>>(values, 2.0f, COUNT);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGetLastError());
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(values));
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: calls TRUTH.json\n");
        return 2;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) threads.emplace_back(thread_calls);
    for (std::thread &thread : threads) thread.join();

    // Memory: sizes that PyTorch never asks for, and two requests that must fail.
    const size_t sizes[] = {1, 777, 4096, (1 << 20) + 1, 5 << 20, (64 << 20) + 3};
    const int blocks = sizeof sizes / sizeof *sizes;
    void *taken[blocks];
    size_t bytes = THREADS * COUNT * sizeof(float);
    for (int i = 0; i < blocks; i++) {
        CHECK(cudaMalloc(&taken[i], sizes[i]));
        bytes += sizes[i];
    }
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        void *none = nullptr;
        failed += cudaMalloc(&none, (size_t)1 << 60) == cudaErrorMemoryAllocation;
    }
    (void)cudaGetLastError();

    double *doubles = (double *)taken[4];
    for (int i = 0; i < SHIFTS; i++) geometry::shift<<<4, 128>>>(doubles, 1.0, 512);
    for (int i = 0; i < PLAINS; i++) plain_name<<<1, 1>>>((int *)taken[2]);

    float *floats = (float *)taken[5];
    for (int i = 0; i < EXTENDED; i++) {
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(2);
        config.blockDim = dim3(64);
        CHECK(cudaLaunchKernelEx(&config, fill, floats, 3.0f, 128));
    }
    for (int i = 0; i < COOPERATIVE; i++) {
        float value = 4.0f;
        int count = 128;
        void *arguments[] = {&floats, &value, &count};
        CHECK(cudaLaunchCooperativeKernel((const void *)fill, dim3(2), dim3(64), arguments, 0, 0));
    }

    // Copies, each direction with and without a stream.
    const size_t size = 1 << 20;
    const int pageable = 6, streamed = 9, within = 4;
    char *host = (char *)malloc(size), *pinned;
    CHECK(cudaMallocHost(&pinned, size));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    char *device = (char *)taken[5], *other = (char *)taken[4];
    for (int i = 0; i < pageable; i++) {
        CHECK(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
    }
    for (int i = 0; i < within; i++) CHECK(cudaMemcpy(other, device, size, cudaMemcpyDeviceToDevice));
    for (int i = 0; i < streamed; i++) {
        CHECK(cudaMemcpyAsync(device, pinned, size, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(pinned, device, size, cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    const int symbols = 4;
    long long value = 5;
    for (int i = 0; i < symbols; i++) {
        CHECK(cudaMemcpyToSymbol(symbol, &value, sizeof value));
        CHECK(cudaMemcpyFromSymbol(&value, symbol, sizeof value));
    }

    // A graph: its launches are captured, not run; a replay is one call.
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < CAPTURED; i++) scale<float><<<1, 128, 0, stream>>>(floats, 1.5f, 128);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < REPLAYS; i++) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));

    const int device_waits = 8, event_waits = 5;
    for (int i = 0; i < device_waits; i++) CHECK(cudaDeviceSynchronize());
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    for (int i = 0; i < event_waits; i++) {
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaEventSynchronize(event));
    }
    for (int i = 0; i < blocks; i++) CHECK(cudaFree(taken[i]));

    const int each_way = pageable + streamed + symbols;
    const size_t each_way_bytes = (pageable + streamed) * size + symbols * sizeof value;
    FILE *truth = fopen(argv[1], "w");
    if (!truth) {
        perror(argv[1]);
        return 1;
    }
    fprintf(truth,
            "{\"mallocs\": %d, \"malloc_bytes\": %zu, \"failed_mallocs\": %d, \"frees\": %d,\n"
            " \"kernels\": {\"fill(float*, float, int)\": %d,\n"
            "             \"void scale<float>(float*, float, int)\": %d,\n"
            "             \"geometry::shift(double*, double, int)\": %d, \"plain_name\": %d},\n"
            " \"copies\": {\"host_to_device\": [%d, %zu], \"device_to_host\": [%d, %zu], "
            "\"device_to_device\": [%d, %zu]},\n"
            " \"device_waits\": %d, \"stream_waits\": %d, \"event_waits\": %d, \"graph_launches\": %d}\n",
            THREADS + blocks, bytes, failed, THREADS + blocks,
            THREADS * FILLS + EXTENDED + COOPERATIVE, THREADS * SCALES + CAPTURED, SHIFTS, PLAINS,
            each_way, each_way_bytes, each_way, each_way_bytes, within, within * size, device_waits, THREADS + 2, event_waits, REPLAYS);
    return fclose(truth) == 0 ? 0 : 1;
}
