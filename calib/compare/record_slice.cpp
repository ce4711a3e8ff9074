#include "calib/compare/record_slice.hpp"

#include <algorithm>
#include <functional>
#include <regex>

#include <nlohmann/json.hpp>

namespace orrery::compare {
namespace {

using nlohmann::json;
using Shape = std::vector<std::int64_t>;  // chips on each axis, ascending

std::int64_t product(const Shape& shape) {
    std::int64_t all = 1;
    for (const std::int64_t length : shape)
        all *= length;
    return all;
}

Shape stated_shape(const std::string& text, std::int64_t chips) {
    static const std::regex lengths(R"((\d+)x(\d+)(?:x(\d+))?)");
    for (std::sregex_iterator found(text.begin(), text.end(), lengths), end; found != end;
         ++found) {
        Shape shape;
        for (std::size_t axis = 1; axis < found->size(); ++axis)
            if ((*found)[axis].matched) shape.push_back(std::stoll((*found)[axis]));
        if (product(shape) == chips) return shape;
    }
    return {};
}

// Of those of so many axes the one whose longest and shortest axis differ least, made of whole
// multiples of `unit` where any is.
Shape most_even(std::int64_t chips, std::size_t axes, std::int64_t unit) {
    Shape best;
    bool best_whole = false;
    Shape shape;
    const std::function<void(std::int64_t, std::int64_t)> extend = [&](std::int64_t left,
                                                                       std::int64_t least) {
        if (shape.size() + 1 == axes) {
            if (left < least) return;
            shape.push_back(left);
            const bool whole = std::all_of(shape.begin(), shape.end(),
                                           [&](std::int64_t length) { return length % unit == 0; });
            if (best.empty() || (whole && !best_whole) ||
                (whole == best_whole &&
                 shape.back() * best.front() < best.back() * shape.front())) {
                best = shape;
                best_whole = whole;
            }
            shape.pop_back();
            return;
        }
        for (std::int64_t length = least; length * length <= left; ++length)
            if (left % length == 0) {
                shape.push_back(length);
                extend(left / length, length);
                shape.pop_back();
            }
    };
    extend(chips, 1);
    return best;
}

}  // namespace

std::optional<std::int64_t> chips_of_slice(const std::string& text) {
    static const std::regex stated(R"((?:slices?|pods?)\s(?:[\dx]+\s)?of\s(\d+)\schips)");
    std::smatch found;
    if (!std::regex_search(text, found, stated)) return std::nullopt;
    return std::stoll(found[1]);
}

json torus_of_slice(const json& torus, const std::string& text, std::int64_t devices,
                    std::int64_t first) {
    const std::int64_t per_chip = torus.value("devices_per_chip", std::int64_t{1});
    const std::int64_t chips = devices / per_chip;
    const json& wraps = torus.at("wraps");
    const std::int64_t unit = wraps.value("multiples_of", std::int64_t{1});
    Shape shape = stated_shape(text, chips);
    if (shape.empty()) shape = most_even(chips, torus.at("axes"), unit);
    const auto fitting = std::find(shape.begin(), shape.end(), first / per_chip);
    if (fitting != shape.end()) std::rotate(shape.begin(), fitting, fitting + 1);
    const bool whole = std::all_of(shape.begin(), shape.end(),
                                   [&](std::int64_t length) { return length % unit == 0; });
    json out = {{"shape", json::array()}, {"wraparound", json::array()}};
    for (const std::int64_t length : shape) {
        out["shape"].push_back(length);
        out["wraparound"].push_back(whole && length >= wraps.value("from", unit));
    }
    // Those of a chip lie side by side on the first axis.
    out["shape"][0] = shape[0] * per_chip;
    return out;
}

}  // namespace orrery::compare
