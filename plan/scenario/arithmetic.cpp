#include "plan/scenario/arithmetic.hpp"

#include <algorithm>
#include <cstdlib>

namespace orrery::plan {

std::string quotient(std::int64_t dividend, std::int64_t divisor) {
    std::string out = std::to_string(dividend / divisor);
    std::int64_t rest = dividend % divisor;
    if (rest == 0) return out;
    out += '.';
    for (int digit = 0; digit < 2 && rest != 0; ++digit) {
        rest *= 10;
        out += static_cast<char>('0' + rest / divisor);
        rest %= divisor;
    }
    return rest == 0 ? out : out + "…";
}

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t largest) {
    std::vector<std::int64_t> low, high;
    for (std::int64_t d = 1; d * d <= number; ++d) {
        if (number % d != 0) continue;
        if (d <= largest) low.push_back(d);
        if (number / d != d && number / d <= largest) high.push_back(number / d);
    }
    low.insert(low.end(), high.rbegin(), high.rend());
    return low;
}

std::string choices_near(std::int64_t wrong, std::vector<std::int64_t> choices, std::size_t most) {
    std::stable_sort(choices.begin(), choices.end(), [wrong](std::int64_t a, std::int64_t b) {
        return std::llabs(a - wrong) < std::llabs(b - wrong);
    });
    if (choices.size() > most) choices.resize(most);
    std::sort(choices.begin(), choices.end());
    std::string out;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        if (i > 0) out += i + 1 == choices.size() ? " or " : ", ";
        out += std::to_string(choices[i]);
    }
    return out;
}

}  // namespace orrery::plan
