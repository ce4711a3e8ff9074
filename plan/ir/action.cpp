#include "plan/ir/action.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace orrery::plan {
namespace {
constexpr std::array<std::string_view, kActionKinds> kActionNames = {
    "F",           "B",           "I",        "W",        "SEND_F",     "RECV_F",
    "SEND_B",      "RECV_B",      "SEND_SUM", "RECV_SUM", "SEND_TOTAL", "RECV_TOTAL",
    "REDUCE_GRAD", "REDUCE_TIED", "UNSCALE",  "CLIP",     "STEP",       "OFFLOAD",
    "SPILL",       "LOAD",        "FETCH",    "SUM",      "VALIDATE",   "AMEND"};

bool takes_micro_batch(ActionKind kind) {
    return kind <= ActionKind::recv_total || is_move(kind);
}

bool read_number(std::string_view& text, std::int32_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}
}  // namespace

std::string to_text(const Action& action) {
    std::array<char, 40> text;  // two numbers and a name
    char* const past = text.data() + text.size();
    char* end = std::to_chars(text.data(), past, action.stage).ptr;
    const std::string_view word = kActionNames[static_cast<std::size_t>(action.kind)];
    end = std::copy(word.begin(), word.end(), end);
    if (action.micro_batch >= 0) end = std::to_chars(end, past, action.micro_batch).ptr;
    return {text.data(), end};
}

std::optional<Action> parse_action(std::string_view text) {
    Action action;
    if (!read_number(text, action.stage)) return std::nullopt;
    std::size_t letters = 0;
    while (letters < text.size() && (text[letters] < '0' || text[letters] > '9'))
        ++letters;
    const std::string_view word = text.substr(0, letters);
    text.remove_prefix(letters);
    for (std::size_t i = 0; i < kActionNames.size(); ++i) {
        if (kActionNames[i] != word) continue;
        action.kind = static_cast<ActionKind>(i);
        if (takes_micro_batch(action.kind)) {
            if (!read_number(text, action.micro_batch)) return std::nullopt;
        }
        if (!text.empty()) return std::nullopt;
        return action;
    }
    return std::nullopt;
}

}  // namespace orrery::plan
