// A device with queues whose clock is a formula: what a request takes is added up, nothing is
// computed. So a calibration can be held against what it should have found.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/kernels/eight_bit.hpp"
#include "runtime/kernels/grouped_product.hpp"
#include "runtime/machine/gpu_monitor.hpp"
#include "runtime/number.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::measure {

inline double as_double(std::int64_t value) {
    return static_cast<double>(value);
}

// Microseconds and bytes, or elements, or FLOP, per microsecond.
struct FakeMachine {
    // Products: t0 4 us, 10 TFLOP/s (fp32 1 TFLOP/s), 100 GB/s.
    double gemm_t0 = 4, gemm_rate = 10e6, gemm_rate_fp32 = 1e6, gemm_bandwidth = 100e3;
    // In eight bits 20 TFLOP/s; with scales of rows all but t0 takes twice as long.
    double gemm_rate_fp8 = 20e6, of_scaled_rows = 2;
    std::map<plan::DType, int> eight_bit_products;  // by the first factor
    // Of all but short bursts: this share of the rate.
    double sustained = 1;
    int burst = 500;  // products in a row without anything else
    // Attention: t0 20 us, 2 TFLOP/s, 5 ps per element of q; backward 3 times that.
    double attention_t0 = 20, attention_rate = 2e6, query_us = 5e-6;
    // With dropout, of each pair of a query and a key that the mask leaves; backward twice as much.
    double dropout_us = 6e-6;
    // Scores of unfused attention: at half the rate of products.
    double scores_rate = 5e6;
    // Kernels that move bytes: 2 us, reductions 7 us; 40 GB/s, of what is in cache 160 GB/s.
    double moves_t0 = 2, reduction_t0 = 7, memory = 40e3, cache = 160e3;
    double activation_t0 = 6, activation_rate = 20e3;
    double transpose_t0 = 8, transpose_rate = 30e3;
    double other_us = 9;  // every other kernel
    // Host: 3 us per request; copies 10 us and 10 GB/s to the device, 12 us and 8 GB/s from it.
    // Of pinned memory 5 us and 25 GB/s to the device, 6 us and 20 GB/s from it, one way after the
    // other; beside products 1.5 times that, which then take 1.25 times as long.
    double send_t0 = 5, send_rate = 25e3, fetch_t0 = 6, fetch_rate = 20e3;
    double copy_beside = 1.5, product_beside = 1.25;
    bool copies_under_way = false, products_under_way = false;
    bool experts_at_once = false;  // one kernel for all of them
    double host_request = 3, write_t0 = 10, write_rate = 10e3, read_t0 = 12, read_rate = 8e3;
    std::int64_t cache_bytes = 1 << 20;
    std::set<std::int64_t> workspaces;  // of products, in bytes, as they were given

    double device_us = 0, host_us = 0;
    bool flushed = false;        // nothing of the operands is in cache
    int products = 0;            // in a row
    bool marked = false;         // nothing since the last mark
    std::int64_t unflushed = 0;  // kernels of a kind that found something in cache
    bool checks_operands = true;
    std::vector<std::string> log;
    bool keeps_log = false;
    double worst_mean = 0, worst_variance = 0;  // of operands: how far from 0 and 1
    std::map<std::string, int> calls;

    void take(const std::string& name, double us) {
        device_us += us;
        host_us += host_request;
        ++calls[name];
        products = name == "gemm" ? products + 1 : 0;
        if (keeps_log) log.push_back(name);
        flushed = marked = false;
    }
    void expect_flushed() { unflushed += marked && !flushed ? 1 : 0; }
    // Elements at the buffer's start are looked at.
    void expect_normal(const runtime::Buffer& buffer) {
        if (!checks_operands) return;
        constexpr int kElements = 512;
        double sum = 0, squares = 0;
        for (int i = 0; i < kElements; ++i) {
            const double x = element(buffer, i);
            sum += x;
            squares += x * x;
        }
        worst_mean = std::max(worst_mean, std::fabs(sum / kElements));
        worst_variance = std::max(worst_variance, std::fabs(squares / kElements - 1));
    }
    static double element(const runtime::Buffer& buffer, int i) {
        const auto at = [&](auto number) {
            std::memcpy(&number,
                        static_cast<const std::byte*>(buffer.data) +
                            static_cast<std::size_t>(i) * sizeof number,
                        sizeof number);
            return number;
        };
        if (buffer.dtype == plan::DType::bf16)
            return static_cast<double>(runtime::to_float(at(runtime::BFloat16{})));
        if (buffer.dtype == plan::DType::fp16)
            return static_cast<double>(runtime::to_float(at(runtime::Half{})));
        if (buffer.dtype == plan::DType::fp8_e4m3)
            return static_cast<double>(runtime::E4M3::value(at(std::uint8_t{})));
        if (buffer.dtype == plan::DType::fp8_e5m2)
            return static_cast<double>(runtime::E5M2::value(at(std::uint8_t{})));
        return static_cast<double>(at(0.0F));
    }
};

class FakeKernels final : public runtime::Kernels {
  public:
    explicit FakeKernels(FakeMachine& machine) : machine_(machine) {}

    void launch(const runtime::KernelRequest& request) override {
        std::visit([this](const auto& op) { take(op); }, request);
    }

    void bring(std::span<const std::int32_t>, void*) override {}
    void copy(const void*, void*, std::int64_t) override {}
    const std::int32_t* fetch(std::span<const std::int32_t> numbers) override {
        return numbers.data();
    }
    const void* keep_bytes(std::span<const std::byte> bytes) override {
        return kept_.emplace_back(bytes.begin(), bytes.end()).data();
    }

  private:
    void take(const runtime::Gemm& op) {
        machine_.expect_normal(op.a);
        machine_.expect_normal(op.b);
        const double rate = rate_of(op);
        const double share = machine_.products >= machine_.burst ? machine_.sustained : 1;
        const double bytes =
            as_double(plan::size_bytes(op.a.dtype) * (op.m * op.k + op.k * op.n + op.m * op.n));
        const double work = bytes / machine_.gemm_bandwidth +
                            2 * as_double(op.m * op.n) * as_double(op.k) / (rate * share);
        const bool by_rows = plan::is_eight_bit(op.a.dtype) && op.a_scales.rows == 1;
        const double us = machine_.gemm_t0 + work * (by_rows ? machine_.of_scaled_rows : 1);
        machine_.take("gemm", us * (machine_.copies_under_way ? machine_.product_beside : 1));
        machine_.products_under_way = true;
    }
    // Work of the experts' products, and t0 of each or of all.
    void take(const runtime::GroupedGemm& op) {
        double us = 0;
        runtime::for_products(op.places, false, [&](const runtime::ProductRows& of) {
            const runtime::Gemm gemm = runtime::product_of(op, of);
            machine_.expect_normal(gemm.a);
            const double bytes =
                as_double(2 * (gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n));
            us += (us > 0 && machine_.experts_at_once ? 0 : machine_.gemm_t0) +
                  bytes / machine_.gemm_bandwidth +
                  2 * as_double(gemm.m * gemm.n) * as_double(gemm.k) / machine_.gemm_rate;
        });
        machine_.take("grouped_gemm", us);
    }
    double rate_of(const runtime::Gemm& op) {
        if (op.a.dtype == plan::DType::fp32) return machine_.gemm_rate_fp32;
        if (!plan::is_eight_bit(op.a.dtype)) return machine_.gemm_rate;
        ++machine_.eight_bit_products[op.a.dtype];
        return machine_.gemm_rate_fp8;
    }
    void take(const runtime::Attention& op) {
        machine_.expect_normal(op.qkv);
        machine_.take("attention", forward_us(op.shape) + dropout_us(op));
    }
    void take(const runtime::AttentionBackward& op) {
        machine_.take("attention_backward", 3 * forward_us(op.shape) + 2 * dropout_us(op));
    }
    void take(const runtime::AttentionProduct& op) {
        const auto& s = op.shape;
        const double flops = 2 * as_double(s.maps() * s.sequence * s.sequence * s.head_dim);
        const double bytes = 2 * as_double(s.maps() * s.sequence * (2 * s.head_dim + s.sequence));
        machine_.take("attention_product",
                      machine_.gemm_t0 + flops / machine_.scores_rate + bytes / machine_.memory);
    }
    void take(const runtime::Add& op) {
        moves("add", machine_.moves_t0, 3 * width(op.a) * op.elements);
    }
    void take(const runtime::Cast& op) {
        moves("cast", machine_.moves_t0, (width(op.x) + width(op.y)) * op.elements);
    }
    void take(const runtime::AdamW& op) { moves("adamw", machine_.moves_t0, 28 * op.elements); }
    void take(const runtime::BiasGradient& op) {
        moves("bias_gradient", machine_.reduction_t0, width(op.dy) * op.rows * op.width);
    }
    void take(const runtime::Activation& op) {
        const bool gated = op.form >= runtime::ActivationForm::swiglu;
        const double bytes = as_double((gated ? 3 : 2) * width(op.x) * op.rows * op.width);
        machine_.expect_flushed();
        machine_.take("activation", machine_.activation_t0 + bytes / machine_.activation_rate);
    }
    void take(const runtime::Transpose& op) {
        machine_.expect_flushed();
        machine_.take("transpose",
                      machine_.transpose_t0 + as_double(2 * width(op.x) * op.rows * op.width) /
                                                  machine_.transpose_rate);
    }
    void take(const runtime::Rearrange& op) {
        moves("rearrange", machine_.moves_t0,
              (width(op.from) + width(op.to)) * op.counts[0] * op.counts[1] * op.run);
    }
    void take(const runtime::Fill& op) {
        const std::int64_t bytes = width(op.x) * op.elements;
        machine_.take(bytes > machine_.cache_bytes ? "flush" : "fill",
                      machine_.moves_t0 + as_double(bytes) / machine_.memory);
        machine_.flushed = bytes > machine_.cache_bytes;
    }

    template <typename Request>
    void take(const Request& op) {
        machine_.expect_flushed();
        machine_.take(std::string(runtime::name(op)), machine_.other_us);
    }

    static std::int64_t width(const runtime::Buffer& buffer) {
        return plan::size_bytes(buffer.dtype);
    }
    double forward_us(const runtime::AttentionShape& s) const {
        const double elements = as_double(s.maps() * s.sequence * s.head_dim);
        return machine_.attention_t0 + elements * machine_.query_us +
               2 * elements * as_double(s.sequence) / machine_.attention_rate;
    }
    template <typename Request>
    double dropout_us(const Request& op) const {
        const double pairs =
            0.5 * as_double(op.shape.maps() * op.shape.sequence * op.shape.sequence);
        return op.dropout.key ? pairs * machine_.dropout_us : 0;
    }
    void moves(const std::string& name, double t0, std::int64_t bytes) {
        const bool cached = !machine_.flushed && 2 * bytes <= machine_.cache_bytes;
        machine_.take(name, t0 + as_double(bytes) / (cached ? machine_.cache : machine_.memory));
    }

    FakeMachine& machine_;
    std::list<std::vector<std::byte>> kept_;
};

class FakeDriver final : public runtime::StreamDriver {
  public:
    explicit FakeDriver(FakeMachine& machine) : machine_(machine) {}

    std::byte* allocate(std::int64_t bytes) override {
        return memory_.emplace_back(static_cast<std::size_t>(bytes)).data();
    }
    std::byte* allocate_host(std::int64_t bytes) override {
        std::byte* const memory = allocate(bytes);
        host_.emplace_back(memory, memory + bytes);
        return memory;
    }
    std::optional<std::int64_t> bytes_in_use() const override {
        std::int64_t bytes = 0;
        for (const std::vector<std::byte>& block : memory_)
            bytes += static_cast<std::int64_t>(block.size());
        return bytes;
    }
    runtime::Stream create_stream(runtime::StreamUse) override { return {&machine_}; }
    runtime::Event create_event(bool) override { return {&events_.emplace_back(-1.0)}; }
    void record(runtime::Event event, runtime::Stream) override {
        *static_cast<double*>(event.handle) = machine_.device_us;
        machine_.marked = true;
        if (machine_.keeps_log) machine_.log.push_back("record");
    }
    void wait(runtime::Stream, runtime::Event) override {}
    bool passed(runtime::Event event) override {
        machine_.copies_under_way = machine_.products_under_way = false;
        return *static_cast<double*>(event.handle) >= 0;
    }
    std::int64_t nanoseconds(runtime::Event from, runtime::Event to) override {
        return std::llround(
            1e3 * (*static_cast<double*>(to.handle) - *static_cast<double*>(from.handle)));
    }
    void copy(runtime::Stream, std::byte*, const std::byte* from, std::int64_t bytes) override {
        bool sends = false;
        for (const auto& [begin, end] : host_)
            sends = sends || (begin <= from && from < end);
        const double us = sends ? machine_.send_t0 + as_double(bytes) / machine_.send_rate
                                : machine_.fetch_t0 + as_double(bytes) / machine_.fetch_rate;
        machine_.device_us += us * (machine_.products_under_way ? machine_.copy_beside : 1);
        machine_.copies_under_way = true;
    }
    void fill(runtime::Stream, std::byte*, std::int64_t, std::byte) override {}
    void call(runtime::Stream, std::function<void()>) override {}
    void read(const std::byte* from, std::span<std::byte> into) override {
        std::memcpy(into.data(), from, into.size());
        machine_.host_us +=
            machine_.read_t0 + static_cast<double>(into.size()) / machine_.read_rate;
    }
    void write(std::byte* to, std::span<const std::byte> from) override {
        std::memcpy(to, from.data(), from.size());
        machine_.host_us +=
            machine_.write_t0 + static_cast<double>(from.size()) / machine_.write_rate;
    }
    std::unique_ptr<runtime::Kernels> kernels(runtime::Stream, std::byte*,
                                              std::int64_t workspace_bytes) override {
        machine_.workspaces.insert(workspace_bytes);
        return std::make_unique<FakeKernels>(machine_);
    }

  private:
    FakeMachine& machine_;
    std::list<std::vector<std::byte>> memory_;
    std::vector<std::pair<const std::byte*, const std::byte*>> host_;
    std::deque<double> events_;
};

// One of these clocks after the other, again from the first after the last.
class FakeMonitor final : public runtime::GpuMonitor {
  public:
    explicit FakeMonitor(std::vector<int> clocks) : clocks_(std::move(clocks)) {}

    runtime::GpuReading read() override {
        runtime::GpuReading reading;
        reading.clock_MHz = clocks_[next_++ % clocks_.size()];
        reading.memory_clock_MHz = 3201;
        reading.power_w = 650;
        reading.temperature_c = 61;
        return reading;
    }
    std::optional<double> power_limit_w() override { return 700; }

  private:
    std::vector<int> clocks_;
    std::size_t next_ = 0;
};

}  // namespace orrery::measure
