#include "plan/checks/operand_faults.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::plan {
namespace {

bool has(const std::vector<TensorId>& ids, TensorId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Gives the tensors that an op reads, or writes, to the operands that it declares, in order.
class OperandMatch {
  public:
    OperandMatch(const Block& block, const std::vector<TensorId>& ids,
                 const std::vector<TensorId>& others, const char* verb,
                 std::vector<std::string>& faults)
        : block_(block), ids_(ids), others_(others), verb_(verb), faults_(faults) {}

    void operator()(const OperandSpec& operand) {
        switch (operand.use) {
            case OperandUse::needed:
                return take(operand, operand.elements);
            case OperandUse::optional:
                if (may_be(operand))
                    ++taken_;
                else
                    absent_.push_back(operand);
                return;
            case OperandUse::in_place:
                if (left() > 0 && has(others_, next())) take(operand, operand.elements);
                return;
            case OperandUse::halves:
                return take_halves(operand);
            case OperandUse::in_place_together:
                return take_all(operand, [this](TensorId id) { return has(others_, id); });
            case OperandUse::message:
                return take_message(operand);
            case OperandUse::together:
            case OperandUse::several:
                return take_all(operand, [](TensorId) { return true; });
        }
    }

    // Sums that are added to are read and written. An optional operand that was passed over, since
    // another stood in its place, may come behind that.
    void finish() {
        for (; left() > 0; ++taken_)
            if (const auto late = std::find_if(absent_.begin(), absent_.end(),
                                               [this](const OperandSpec& o) { return may_be(o); });
                late != absent_.end())
                absent_.erase(late);
            else if (!adds() || !has(others_, next()))
                fault(fmt::format("{}, which it has no operand for", tensor().name));
    }

  private:
    std::size_t left() const { return ids_.size() - taken_; }
    TensorId next() const { return ids_[taken_]; }
    const Tensor& tensor() const { return block_.tensors[static_cast<std::size_t>(next())]; }
    bool adds() const { return verb_[0] == 'r'; }
    bool may_be(const OperandSpec& operand) const {
        return left() > 0 && !(adds() && has(others_, next())) &&
               tensor().elements() >= operand.elements;
    }
    void fault(const std::string& what) { faults_.push_back(fmt::format("{} {}", verb_, what)); }

    void take(const OperandSpec& operand, std::int64_t elements) {
        if (left() == 0) return fault(fmt::format("no {}", operand.name));
        const Tensor& held = tensor();
        if (held.elements() < elements)
            fault(fmt::format("{} of {} elements as {}, which has {}", held.name, held.elements(),
                              operand.name, elements));
        else if (operand.width > 0 && (held.dims.empty() || held.dims.back() != operand.width))
            fault(fmt::format("{} in rows of {} as {}, which has rows of {}", held.name,
                              held.dims.empty() ? 0 : held.dims.back(), operand.name,
                              operand.width));
        ++taken_;
    }

    void take_halves(const OperandSpec& operand) {
        const bool whole = left() < 2 || has(others_, ids_[taken_ + 1]);
        const std::int64_t elements = whole ? operand.elements : operand.elements / 2;
        for (int half = 0; half < (whole ? 1 : 2); ++half)
            take(operand, elements);
    }

    // As many of the next ones as are `taken`, one at least.
    template <typename Taken>
    void take_all(const OperandSpec& operand, const Taken& taken) {
        if (left() == 0 || !taken(next())) return fault(fmt::format("no {}", operand.name));
        std::int64_t elements = 0;
        for (; left() > 0 && taken(next()); ++taken_)
            elements += tensor().elements();
        if (elements < operand.elements)
            fault(fmt::format("{} elements as {}, which has {}", elements, operand.name,
                              operand.elements));
    }

    // Numbers of eight bits travel with their scales.
    void take_message(const OperandSpec& operand) {
        if (left() == 0) return fault(fmt::format("no {}", operand.name));
        const std::int64_t needed = operand.elements * size_bytes(tensor().dtype);
        std::int64_t bytes = 0;
        for (; left() > 0; ++taken_)
            bytes += tensor().bytes();
        if (bytes < needed)
            fault(fmt::format("{} bytes as {}, which has {}", bytes, operand.name, needed));
    }

    const Block& block_;
    const std::vector<TensorId>& ids_;
    const std::vector<TensorId>& others_;
    const char* verb_;
    std::vector<std::string>& faults_;
    std::vector<OperandSpec> absent_;  // optional ones
    std::size_t taken_ = 0;
};

}  // namespace

std::vector<std::string> operand_faults(const Block& block, const Op& op) {
    std::vector<std::string> faults;
    // What leaves the device gives its memory up: it counts as written, so that whoever takes the
    // memory over waits for those that read it.
    std::vector<TensorId> written = op.writes;
    if (op.is<CopyToHost>()) std::erase_if(written, [&](TensorId id) { return has(op.reads, id); });
    OperandMatch reads(block, op.reads, op.writes, "reads", faults);
    OperandMatch writes(block, written, op.reads, "writes", faults);
    walk_operands(op.spec, reads, writes);
    reads.finish();
    writes.finish();
    for (std::string& fault : faults)
        fault = fmt::format("{} \"{}\" {}", name(op.kind()), op.label, fault);
    return faults;
}

std::vector<std::string> operand_faults(const std::vector<Block>& blocks, const Mesh& mesh) {
    std::vector<std::string> faults;
    for (const Block& block : blocks)
        for (const Op& op : block.ops) {
            for (const std::string& fault : operand_faults(block, op))
                faults.push_back(block.name + ": " + fault);
            if (!op.is<Broadcast>()) continue;
            const std::int64_t root = op.as<Broadcast>().root, members = mesh.group_size(op.group);
            if (root < 0 || root >= members)
                faults.push_back(fmt::format("{}: broadcast \"{}\" is from member {} of {}",
                                             block.name, op.label, root, members));
        }
    return faults;
}

}  // namespace orrery::plan
