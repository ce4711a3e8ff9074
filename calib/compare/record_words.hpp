// Published records are spelled as their authors pleased. Before any rule is asked, the facts of a
// record are read by meaning: known words in one spelling, numbers as numbers. What no list knows
// stays as it stands, for a rule to refuse or to take a default for.
//
//   "NVIDIA H100 80GB HBM3"  of a GPU           -> "h100-sxm"
//   "Zero-Bubble 1p"         of a schedule      -> "zb-1p"
//   "2,048"  "~2048"  "4k"   of a sequence      -> 2048, 2048, 4096
//   "8/3"                    of an MLP's ratio  -> 2.6666666666666665
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace orrery::compare {

// Whether two texts are the same word but for case, spaces and punctuation.
bool same_word(const std::string& one, const std::string& other);

// Whether `text` holds `part`, from the start of one of its words on, case, spaces and punctuation
// aside; full stops and brackets count, as in "(release 25.04)".
bool holds_words(const std::string& text, const std::string& part);

// A number with separators of thousands, "~", a fraction, or k, M, B at its end. A k of tokens is
// 1024. Empty: the text is no number.
std::optional<double> number_in(const std::string& text, double thousand);

// The record with its words in the spelling of the rules: those of their list "words", by path,
// the names of their devices and precisions, and numbers.
nlohmann::json read_by_meaning(const nlohmann::json& record, const nlohmann::json& rules);

}  // namespace orrery::compare
