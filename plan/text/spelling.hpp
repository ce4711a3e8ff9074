// What printer and parser of plans agree on: how names are spelled, how a tensor of a block is told
// from others of its name, and what a step is bound to when its text does not say.
// Internal to plan/text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// A name that reads as a word and is no keyword stands bare, any other in double quotes.
bool is_bare_name(std::string_view name);
std::string spelled(std::string_view name);
std::string in_quotes(std::string_view text);

// How ops of a block refer to a tensor: its name; with its role where tensors of other roles share
// the name ("qkv.weight:gradient"); with its number among those of the same name and role from the
// second on ("dx#2").
struct TensorReference {
    std::string name;
    std::optional<Role> role;
    std::int64_t number = 1;
    auto operator<=>(const TensorReference&) const = default;
};
std::vector<TensorReference> references_of(const std::vector<Tensor>& tensors);
std::string to_text(const TensorReference& reference);

// The first use in another procedure of the same block for the same part and bucket, whose slots a
// text need not repeat ("as p1"); nullptr: none.
const BlockUse* use_like(const Procedure& procedure, const BlockUse& use);

// The phase that the ops of a block have unless they say otherwise: the most frequent one.
Phase usual_phase(const Block& block);

// What names say a step is bound to; a text spells out only what differs. Procedures are found by
// "forward 1", "backward 1", "last backward 1" (of the last micro-batch; halves of it likewise,
// with "backward_input" and "backward_weight"), "reduce 1", "tied reduction", "unscale", "clip",
// "optimizer"; residents by "stash 1F0", "kept 1F0", "deferred 1I0", "sending 1F0", "sending 1B0",
// "received 1RECV_F0", "received 1RECV_B0"; the peer of a transfer owns the next or the stage
// before; its bytes are those of the exchange block.
class UsualBindings {
  public:
    UsualBindings(const Plan& plan, const Program& program);
    Step compute(const Action& action) const;
    Transfer transfer(const Action& action) const;

  private:
    using Index = std::map<std::string, std::int32_t, std::less<>>;
    static std::int32_t find(const Index& index, const std::string& name);
    std::string procedure_name(const Action& action) const;

    std::int32_t micro_batches_;
    std::int32_t pipeline_;
    std::int64_t bytes_ = 0;
    std::vector<std::int64_t> statistic_bytes_;
    Index procedures_;
    Index residents_;
};

}  // namespace orrery::plan
