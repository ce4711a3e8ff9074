#include "tests/gpu/checks/world.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "plan/check.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
constexpr std::int64_t kArenaBytes = std::int64_t{64} << 20;
constexpr std::int64_t kLargeArenaBytes = std::int64_t{512} << 20;
constexpr std::int64_t kAlignment = 256;

void put(DType dtype, std::byte* to, double value) {
    const auto copy = [&](auto number) { std::memcpy(to, &number, sizeof number); };
    switch (dtype) {
        case DType::bf16:
            return copy(to_bfloat16(static_cast<float>(value)));
        case DType::fp16:
            return copy(to_half(static_cast<float>(value)));
        case DType::fp32:
            return copy(static_cast<float>(value));
        case DType::u8:
            return copy(static_cast<std::uint8_t>(value));
        case DType::i32:
            return copy(static_cast<std::int32_t>(value));
        case DType::fp64:
            return copy(value);
        case DType::fp8_e4m3:
        case DType::fp8_e5m2:
            break;
    }
}

double value_at(DType dtype, const std::byte* from) {
    const auto get = [&](auto number) {
        std::memcpy(&number, from, sizeof number);
        return number;
    };
    switch (dtype) {
        case DType::bf16:
            return static_cast<double>(to_float(get(BFloat16{})));
        case DType::fp16:
            return static_cast<double>(to_float(get(Half{})));
        case DType::fp32:
            return static_cast<double>(get(float{}));
        case DType::u8:
            return get(std::uint8_t{});
        case DType::i32:
            return get(std::int32_t{});
        case DType::fp64:
        case DType::fp8_e4m3:
        case DType::fp8_e5m2:
            break;
    }
    return get(double{});
}

Values values_of(const Tensor& tensor, const std::vector<std::byte>& bytes) {
    const auto size = static_cast<std::size_t>(plan::size_bytes(tensor.dtype));
    Values values(bytes.size() / size);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = value_at(tensor.dtype, bytes.data() + i * size);
    return values;
}

void note_wrong(Finding& finding, std::size_t index, double found, double expected) {
    if (finding.wrong++ > 0) return;
    finding.first_wrong = "[" + std::to_string(index) + "] " + std::to_string(found) +
                          ", expected " + std::to_string(expected);
}

}  // namespace

Values normals(std::int64_t n, std::uint32_t seed) {
    Values values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = normal({seed, 0, 0}, i);
    return values;
}

std::int64_t Tensor::elements() const {
    return static_cast<std::int64_t>(before.size()) / plan::size_bytes(dtype);
}

Buffer Place::operator()(Tensor& tensor) const {
    return {on_device_ ? tensor.device : tensor.expected.data(), tensor.dtype};
}

World::World(StreamDriver& driver, DType dtype, bool large)
    : driver_(driver),
      dtype_(dtype),
      large_(large),
      arena_(driver.allocate(large ? kLargeArenaBytes : kArenaBytes)),
      stream_(driver.create_stream(StreamUse::compute)),
      end_(driver.create_event(false)),
      kernels_(driver.kernels(stream_, driver.allocate(kWorkspaceBytes), kWorkspaceBytes)) {}

void World::begin(std::string op, std::string variant) {
    op_ = std::move(op);
    variant_ = std::move(variant);
    tensors_.clear();
    used_ = 0;
}

Tensor& World::place(Tensor tensor) {
    const auto bytes = static_cast<std::int64_t>(tensor.before.size());
    tensor.expected = tensor.before;
    tensor.device = arena_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    ORRERY_CHECK(used_ <= (large_ ? kLargeArenaBytes : kArenaBytes), "the case fits its arena");
    tensors_.push_back(std::move(tensor));
    return tensors_.back();
}

Tensor& World::in(DType dtype, const Values& values) {
    Tensor tensor{dtype, {}, {}, {}, {}, nullptr};
    const auto size = static_cast<std::size_t>(plan::size_bytes(dtype));
    tensor.before.resize(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i)
        put(dtype, tensor.before.data() + i * size, values[i]);
    return place(std::move(tensor));
}

Tensor& World::out(DType dtype, std::int64_t n) {
    const double unwritten = unit_of(dtype) > 0 ? std::nan("") : 77;
    return in(dtype, Values(static_cast<std::size_t>(n), unwritten));
}

Tensor& World::tokens(const std::vector<std::int32_t>& values) {
    return in(DType::i32, Values(values.begin(), values.end()));
}

void World::perform(const std::function<void(Kernels&, const Place&)>& request,
                    std::vector<std::byte> Tensor::*result) {
    for (Tensor& tensor : tensors_)
        driver_.write(tensor.device, tensor.before);
    request(*kernels_, Place(true));
    driver_.record(end_, stream_);
    while (!driver_.passed(end_))
        std::this_thread::yield();
    for (Tensor& tensor : tensors_) {
        (tensor.*result).resize(tensor.before.size());
        driver_.read(tensor.device, tensor.*result);
    }
}

void World::run(const std::function<void(Kernels&, const Place&)>& request, Repeats repeats) {
    repeats_ = repeats;
    request(oracle_, Place(false));
    perform(request, &Tensor::found);
    if (large_) perform(request, &Tensor::again);
}

Finding World::begin_finding(const std::string& output, const Tensor& tensor) const {
    Finding finding;
    finding.op = op_;
    finding.variant = variant_;
    finding.output = output;
    finding.dtype = dtype_;
    finding.elements = tensor.elements();
    finding.repeats = !large_ || repeats_ == Repeats::any_bits || tensor.found == tensor.again;
    return finding;
}

void World::expect_same(const std::string& output, const Tensor& tensor) {
    Finding finding = begin_finding(output, tensor);
    const auto size = static_cast<std::size_t>(plan::size_bytes(tensor.dtype));
    for (std::size_t at = 0; at < tensor.before.size(); at += size) {
        if (std::memcmp(tensor.found.data() + at, tensor.expected.data() + at, size) == 0) continue;
        const double found = value_at(tensor.dtype, tensor.found.data() + at);
        const double expected = value_at(tensor.dtype, tensor.expected.data() + at);
        if (!(std::isnan(found) && std::isnan(expected)))
            note_wrong(finding, at / size, found, expected);
    }
    finding.worst = finding.wrong > 0 ? INFINITY : 0;
    findings_.push_back(finding);
}

void World::expect_close(const std::string& output, const Tensor& tensor, double roundings,
                         double also) {
    Finding finding = begin_finding(output, tensor);
    const Values found = values_of(tensor, tensor.found);
    const Values expected = values_of(tensor, tensor.expected);
    double largest = 0;
    for (const double value : expected)
        if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    // fp16 is denser than 2^-24 nowhere.
    const double tiny = tensor.dtype == DType::fp16 ? 0x1p-24 : 0x1p-126;
    const double overall = roundings * unit_of(DType::fp32) * largest + tiny + also;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
        const double bound = 2 * unit_of(tensor.dtype) * std::abs(expected[i]) + overall;
        const double off = std::abs(found[i] - expected[i]) / bound;
        if (!(off <= 1)) note_wrong(finding, i, found[i], expected[i]);
        finding.worst = std::isnan(off) ? INFINITY : std::max(finding.worst, off);
    }
    findings_.push_back(finding);
}

}  // namespace orrery::runtime::gpu_check
