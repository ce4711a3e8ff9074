// CSV of collective timings.
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "calib/fit/collectives.hpp"

namespace orrery::fit {

namespace {

constexpr const char* kHeader = "system,nccl,collective,ranks,nodes,bytes,time_us,source";
constexpr std::size_t kColumns = 8;

double number(const std::string& text, int line) {
    std::size_t used = 0;
    double value = 0;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != text.size() || !(value > 0))
        throw std::runtime_error(fmt::format("line {}: \"{}\" is no positive number", line, text));
    return value;
}

}  // namespace

std::vector<CollectiveSample> read_collective_samples(std::istream& csv) {
    std::vector<CollectiveSample> samples;
    std::string text;
    for (int line = 1; std::getline(csv, text); ++line) {
        if (!text.empty() && text.back() == '\r') text.pop_back();
        if (line == 1) {
            if (text != kHeader)
                throw std::runtime_error(fmt::format("line 1: the header \"{}\" is expected",
                                                     kHeader));
            continue;
        }
        std::vector<std::string> cells;
        std::istringstream row(text);
        for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
        if (cells.size() != kColumns)
            throw std::runtime_error(fmt::format("line {}: {} cells instead of {}", line,
                                                 cells.size(), kColumns));
        samples.push_back({cells[0], cells[1], cells[2], static_cast<int>(number(cells[3], line)),
                           static_cast<int>(number(cells[4], line)), number(cells[5], line),
                           number(cells[6], line) * 1e-6, cells[7]});
    }
    return samples;
}

}  // namespace orrery::fit
