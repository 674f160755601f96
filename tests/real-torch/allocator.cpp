// Drives PyTorch's own caching allocator (libc10.so, libc10_cuda.so) through all its states and
// prints, as one line of JSON, what the allocator says of itself after each step.

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace c10::cuda::_internal {
// Exported and in no header: libtorch_cuda.so tells by it which devices are in use.
void setHasPrimaryContext(bool (*has)(DeviceIndex));
} // namespace c10::cuda::_internal

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr size_t kKiB = size_t{1} << 10, kMiB = size_t{1} << 20;
constexpr int kDevices = 2;
constexpr size_t kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

// An address and a size.
using Range = std::pair<size_t, size_t>;

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

std::string json(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::ostringstream out;
  for (const auto& [address, size] : ranges) {
    out << (out.tellp() ? "," : "") << '[' << address << ',' << size << ']';
  }
  return '[' + out.str() + ']';
}

// What the allocator says of one device.
std::string device_json(int device, const allocator::SnapshotInfo& snapshot) {
  std::vector<Range> segments, blocks;
  for (const auto& segment : snapshot.segments) {
    if (segment.device != device) continue;
    segments.emplace_back(segment.address, segment.total_size);
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      if (block.allocated) blocks.emplace_back(address, block.size);
      address += block.size;
    }
  }
  const auto stats = allocator::getDeviceStats(device);
  std::ostringstream out;
  out << "{\"device\":" << device
      << ",\"allocated\":" << stats.allocated_bytes[kAggregate].current
      << ",\"reserved\":" << stats.reserved_bytes[kAggregate].current
      << ",\"blocks\":" << json(blocks) << ",\"segments\":" << json(segments) << '}';
  return out.str();
}

class Checkpoints {
 public:
  void take(const std::string& step) {
    const auto snapshot = allocator::snapshot();
    std::ostringstream out;
    for (int device = 0; device < kDevices; ++device) {
      out << (device ? "," : "") << device_json(device, snapshot);
    }
    taken_ += taken_.empty() ? "" : ",";
    taken_ += "{\"step\":\"" + step + "\",\"devices\":[" + out.str() +
        "],\"at\":" + std::to_string(monotonic_ns()) + '}';
  }

  const std::string& json() const { return taken_; }

 private:
  std::string taken_;
};

class Blocks {
 public:
  explicit Blocks(unsigned seed) : chance_(seed) {}

  void take(size_t size) { held_.push_back(allocator::raw_alloc(size)); }

  void free_every_other() {
    for (size_t i = 0; i < held_.size(); ++i) {
      allocator::raw_delete(held_[i]);
      held_.erase(held_.begin() + long(i));
    }
  }

  void free_all() {
    for (void* block : held_) allocator::raw_delete(block);
    held_.clear();
  }

  // Takes and frees blocks of 16 bytes to 128 MiB.
  void shuffle(int times) {
    std::uniform_real_distribution<double> exponent(4, 27);
    for (int i = 0; i < times; ++i) {
      if (held_.empty() || chance_() % 2) {
        take(size_t(std::exp2(exponent(chance_))));
      } else {
        const size_t at = chance_() % held_.size();
        allocator::raw_delete(held_[at]);
        held_.erase(held_.begin() + long(at));
      }
    }
  }

 private:
  std::vector<void*> held_;
  std::mt19937 chance_;
};

void run_out_of_memory(size_t size) {
  try {
    allocator::raw_alloc(size);
  } catch (const c10::OutOfMemoryError&) {
    return;
  }
  throw std::runtime_error("there was room for " + std::to_string(size) + " bytes");
}

// Blocks of a side stream, and one that both streams use: it is freed late.
void use_streams(Checkpoints& checkpoints) {
  const auto side = c10::cuda::getStreamFromPool(false, 0);
  void* block = allocator::raw_alloc_with_stream(3 * kMiB, side.stream());
  auto shared = allocator::get()->allocate(5 * kMiB);
  allocator::recordStream(shared, side);
  checkpoints.take("two streams");
  shared.clear();
  checkpoints.take("freed while another stream may use it");
  allocator::raw_delete(allocator::raw_alloc(1));
  checkpoints.take("another stream is done with it");
  allocator::raw_delete(block);
  checkpoints.take("side stream's block freed");
}

void use_pool(Checkpoints& checkpoints) {
  const c10::cuda::MempoolId_t pool{0, 1};
  allocator::beginAllocateToPool(0, pool, [](cudaStream_t) { return true; });
  Blocks pooled(1);
  for (size_t size : {4 * kMiB, 40 * kMiB, size_t{1000}}) pooled.take(size);
  allocator::endAllocateToPool(0, pool);
  checkpoints.take("in a pool");
  pooled.free_all();
  checkpoints.take("freed in the pool");
  allocator::releasePool(0, pool);
  allocator::emptyCache();
  checkpoints.take("pool given back");
}

void use_threads(Checkpoints& checkpoints) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      c10::cuda::set_device(c10::DeviceIndex(i % kDevices));
      Blocks blocks(i);
      blocks.shuffle(300);
      if (i < kDevices) blocks.free_all();
    });
  }
  for (auto& thread : threads) thread.join();
  checkpoints.take("four threads on two devices");
}

std::string hexadecimal(const unsigned char* bytes, size_t count) {
  std::string text;
  char digits[3];
  for (size_t i = 0; i < count; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

// The beginning of the function that the allocator reports to, as it is in the file and as it
// is in memory: where they differ, there is a probe.
std::string report_code_json() {
  constexpr size_t kCount = 32;
  const auto* code = reinterpret_cast<const unsigned char*>(&c10::reportMemoryUsageToProfiler);
  Dl_info library{};
  if (!dladdr(code, &library)) throw std::runtime_error("the function is in no library");
  // In PyTorch's libraries code lies at the same place in the file as in memory.
  std::ifstream file(library.dli_fname, std::ios::binary);
  file.seekg(code - static_cast<const unsigned char*>(library.dli_fbase));
  unsigned char original[kCount];
  if (!file.read(reinterpret_cast<char*>(original), kCount)) {
    throw std::runtime_error(std::string("cannot read ") + library.dli_fname);
  }
  return "{\"file\":\"" + hexadecimal(original, kCount) + "\",\"memory\":\"" +
      hexadecimal(code, kCount) + "\"}";
}

// How often the allocator reported, ran out of memory, and called cudaMalloc and cudaFree.
std::string calls_json() {
  int64_t reports = 0, out_of_memory = 0, mallocs = 0, frees = 0;
  for (int device = 0; device < kDevices; ++device) {
    const auto stats = allocator::getDeviceStats(c10::DeviceIndex(device));
    reports += stats.allocation[kAggregate].allocated + stats.allocation[kAggregate].freed;
    out_of_memory += stats.num_ooms;
    mallocs += stats.num_device_alloc;
    frees += stats.num_device_free;
  }
  std::ostringstream out;
  out << "{\"reports\":" << reports << ",\"out_of_memory\":" << out_of_memory
      << ",\"mallocs\":" << mallocs << ",\"frees\":" << frees << '}';
  return out.str();
}

int main() {
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  allocator::init(kDevices);
  Checkpoints checkpoints;
  Blocks kept(0);
  for (size_t size : {size_t{1}, size_t{512}, size_t{513}, 100 * kKiB, kMiB - 1, kMiB, 3 * kMiB,
                      9 * kMiB, 10 * kMiB, 21 * kMiB, 300 * kMiB + 7}) {
    kept.take(size);
    checkpoints.take(std::to_string(size) + " bytes");
  }
  kept.free_every_other();
  checkpoints.take("every other one freed");
  kept.take(2 * kMiB);
  checkpoints.take("a cached block split");
  kept.take(700 * kKiB);
  checkpoints.take("a small block from the cache");
  run_out_of_memory(size_t{1} << 45);
  checkpoints.take("out of memory");
  allocator::setMemoryFraction(0.01, 0);
  run_out_of_memory(size_t{1} << 33);
  checkpoints.take("out of a fraction of the memory");
  // Below 1, so that garbage_collection_threshold has something to be a part of.
  allocator::setMemoryFraction(0.99, 0);
  allocator::emptyCache();
  checkpoints.take("cache emptied");
  kept.take(5 * kMiB);
  checkpoints.take("after the cache was emptied");
  use_streams(checkpoints);
  use_pool(checkpoints);
  c10::cuda::set_device(1);
  kept.take(7 * kMiB);
  checkpoints.take("a second device");
  c10::cuda::set_device(0);
  for (int round = 0; round < 20; ++round) {
    kept.shuffle(50);
    if (round % 7 == 6) allocator::emptyCache();
    checkpoints.take("random " + std::to_string(round));
  }
  use_threads(checkpoints);
  kept.free_all();
  allocator::emptyCache();
  checkpoints.take("at the end");
  std::cout << "{\"pid\":" << getpid() << ",\"report_code\":" << report_code_json()
            << ",\"calls\":" << calls_json() << ",\"checkpoints\":[" << checkpoints.json()
            << "]}" << std::endl;
}
