// The CPU's table of kernels and a team of threads, as a device's kernels.
#pragma once

#include <cstring>
#include <list>
#include <vector>

#include "runtime/cpu/kernels.hpp"
#include "runtime/kernels/kernels.hpp"

namespace orrery::runtime {

class CpuKernels final : public Kernels {
  public:
    explicit CpuKernels(int threads) : team_(threads) {}

    void gemm(const Gemm& op) override { table_.gemm(op, team_); }
    void attention(const Attention& op) override { table_.attention(op, team_); }
    void attention_backward(const AttentionBackward& op) override {
        table_.attention_backward(op, team_);
    }
    void attention_product(const AttentionProduct& op) override {
        table_.attention_product(op, team_);
    }
    void softmax(const Softmax& op) override { table_.softmax(op, team_); }
    void softmax_backward(const SoftmaxBackward& op) override {
        table_.softmax_backward(op, team_);
    }
    void dropout(const Dropout& op) override { table_.dropout(op, team_); }
    void dropout_backward(const DropoutBackward& op) override {
        table_.dropout_backward(op, team_);
    }
    void norm(const Norm& op) override { table_.norm(op, team_); }
    void norm_backward(const NormBackward& op) override { table_.norm_backward(op, team_); }
    void qk_norm(const QkNorm& op) override { table_.qk_norm(op, team_); }
    void qk_norm_sums(const QkNormSums& op) override { table_.qk_norm_sums(op, team_); }
    void qk_norm_backward(const QkNormBackward& op) override { table_.qk_norm_backward(op, team_); }
    void activation(const Activation& op) override { table_.activation(op, team_); }
    void activation_backward(const ActivationBackward& op) override {
        table_.activation_backward(op, team_);
    }
    void rope(const Rope& op) override { table_.rope(op, team_); }
    void rope_backward(const Rope& op) override { table_.rope_backward(op, team_); }
    void residual_add(const ResidualAdd& op) override { table_.residual_add(op, team_); }
    void add(const Add& op) override { table_.add(op, team_); }
    void bias_gradient(const BiasGradient& op) override { table_.bias_gradient(op, team_); }
    void embedding(const Embedding& op) override { table_.embedding(op, team_); }
    void embedding_backward(const EmbeddingBackward& op) override {
        table_.embedding_backward(op, team_);
    }
    void cross_entropy_max(const CrossEntropyMax& op) override {
        table_.cross_entropy_max(op, team_);
    }
    void cross_entropy_sum(const CrossEntropySum& op) override {
        table_.cross_entropy_sum(op, team_);
    }
    void cross_entropy(const CrossEntropy& op) override { table_.cross_entropy(op, team_); }
    void cross_entropy_backward(const CrossEntropyBackward& op) override {
        table_.cross_entropy_backward(op, team_);
    }
    void gradient_norm(const GradientNorm& op) override { table_.gradient_norm(op, team_); }
    void unscale(const Unscale& op) override { table_.unscale(op, team_); }
    void adamw(const AdamW& op) override { table_.adamw(op, team_); }
    void cast(const Cast& op) override { table_.cast(op, team_); }
    void rearrange(const Rearrange& op) override { table_.rearrange(op, team_); }
    void fill(const Fill& op) override { table_.fill(op, team_); }

    void update_loss_scale(const UpdateLossScale& op) override {
        runtime::update_loss_scale(op.rule, *op.overflow > 0, *op.scale, op.counters);
    }
    void loss_share(const LossShare& op) override;
    void judge_loss(const JudgeLoss& op) override {
        const bool overflow = op.overflow != nullptr && *op.overflow > 0;
        const bool spiked =
            runtime::judge_loss(op.rule, *op.loss, overflow, op.accepted, *op.count);
        *op.spiked = spiked ? 1 : 0;
    }

    void bring(std::span<const std::int32_t> from, void* to) override {
        std::memcpy(to, from.data(), from.size_bytes());
    }
    const double* keep(std::span<const double> values) override {
        return kept_.emplace_back(values.begin(), values.end()).data();
    }

  private:
    const KernelTable& table_ = kernels();
    Team team_;
    std::list<std::vector<double>> kept_;
};

}  // namespace orrery::runtime
