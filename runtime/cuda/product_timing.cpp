#include "runtime/cuda/product_timing.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime::cuda {
namespace {

constexpr int kRounds = 5;  // behind one that is not timed

class Mark {
  public:
    Mark() { check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreate"); }
    ~Mark() { cudaEventDestroy(event_); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

    void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
    double us_since(const Mark& earlier) const {
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
        return static_cast<double>(milliseconds) * 1e3;
    }

  private:
    cudaEvent_t event_ = nullptr;
};

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// The magnitude of an element that ends so is between 2^-15 and 2, of one of eight bits from 0.5
// on.
std::byte last_byte(std::uint32_t random) {
    return static_cast<std::byte>(0x38U | (random & 0x87U));
}

// As many as are repeated.
std::vector<std::byte> ordinary_numbers(std::size_t element_bytes) {
    std::vector<std::byte> bytes(std::size_t{1} << 18);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::uint32_t random = random_word({1, 0, 0}, i);
        const bool last = i % element_bytes + 1 == element_bytes;
        bytes[i] = last ? last_byte(random) : static_cast<std::byte>(random);
    }
    return bytes;
}

void wait_for(cudaStream_t stream) {
    check(cudaStreamSynchronize(stream), "wait for products that are timed");
}

// Returns once it is done. The stream does not wait for the default one, in which it is made.
void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    wait_for(stream);
    check(cudaMemcpy(to, from, bytes, kind), "copy of a product's operand");
    wait_for(nullptr);
}

}  // namespace

BorrowedMemory::BorrowedMemory(void* memory, std::size_t bytes, cudaStream_t stream)
    : memory_(memory), content_(bytes), stream_(stream) {
    copy(content_.data(), memory_, bytes, cudaMemcpyDeviceToHost, stream_);
}

void BorrowedMemory::fill(std::size_t element_bytes) {
    const std::vector<std::byte> numbers = ordinary_numbers(element_bytes);
    auto* const begin = static_cast<std::byte*>(memory_);
    for (std::size_t first = 0; first < content_.size(); first += numbers.size())
        copy(begin + first, numbers.data(), std::min(numbers.size(), content_.size() - first),
             cudaMemcpyHostToDevice, stream_);
}

void BorrowedMemory::put_back() {
    copy(memory_, content_.data(), content_.size(), cudaMemcpyHostToDevice, stream_);
}

std::vector<double> time_in_turn(std::size_t count, const std::function<bool(std::size_t)>& launch,
                                 cudaStream_t stream) {
    std::vector<std::array<Mark, 2>> marks(count);
    std::vector<std::vector<double>> samples(count);
    std::vector<bool> failed(count);
    for (int round = 0; round <= kRounds; ++round) {
        for (std::size_t i = 0; i < count; ++i) {
            failed[i] = failed[i] || !launch(i);
            if (failed[i]) continue;
            marks[i][0].record(stream);
            failed[i] = !launch(i);
            marks[i][1].record(stream);
        }
        wait_for(stream);
        for (std::size_t i = 0; round > 0 && i < count; ++i)
            if (!failed[i]) samples[i].push_back(marks[i][1].us_since(marks[i][0]));
    }
    std::vector<double> us(count, std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < count; ++i)
        if (!failed[i]) us[i] = median_of(samples[i]);
    return us;
}

}  // namespace orrery::runtime::cuda
