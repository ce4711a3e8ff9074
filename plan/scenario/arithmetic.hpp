// Numbers as error messages show them: quotients, divisors, the valid values around a wrong one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::plan {

// "2.5", "33.33…": the quotient to two decimals, an ellipsis when it goes on.
std::string quotient(std::int64_t dividend, std::int64_t divisor);

// Divisors of `number` up to `largest`, ascending.
std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t largest);

// "4", "4 or 8", "2, 4 or 8": at most `most` of the choices, those nearest to `wrong`, ascending.
std::string choices_near(std::int64_t wrong, std::vector<std::int64_t> choices,
                         std::size_t most = 8);

}  // namespace orrery::plan
