// The table that nccl-tests prints (src/util.cu, github.com/NVIDIA/nccl-tests):
//
//   # nccl-tests version 2.17.6 nccl-headers=22805 nccl-library=22805
//   # Collective test starting: all_reduce_perf
//   # nThread 1 nGpus 2 minBytes 8 …
//   #  Rank  0 Group  0 Pid   6899 on   host device  0 [0000:04:00] NVIDIA H100 80GB HBM3
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time …
//              8             2     float     sum      -1    12.34    0.00    0.00      0    12.31 …
//   # Avg bus bandwidth    : 41.2
//
// Versions before 2.17 lack the first two lines, older ones the words for an empty redop or root.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "calib/fit/nccl_tests.hpp"

namespace orrery::fit {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
    std::istringstream in(line);
    Words words;
    for (std::string word; in >> word;)
        words.push_back(word);
    return words;
}

bool begins(const std::string& text, const std::string& with) {
    return text.compare(0, with.size(), with) == 0;
}

template <typename Number>
std::optional<Number> parsed(const std::string& word) {
    Number value = 0;
    const char* end = word.data() + word.size();
    const auto result = std::from_chars(word.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return value;
}

// Nothing for what is none, "nan" and "inf" among it.
std::optional<double> number(const std::string& word) {
    const auto value = parsed<double>(word);
    return value && std::isfinite(*value) ? value : std::nullopt;
}

// The word after `word`; empty if there is none.
std::string after(const Words& words, const std::string& word) {
    const auto found = std::find(words.begin(), words.end(), word);
    return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

int whole_after(const Words& words, const std::string& word) {
    return parsed<int>(after(words, word)).value_or(0);
}

// Whether time, algbw, busbw, #wrong stand there twice.
bool are_those_of_timings(const Words& columns) {
    const Words four = {"time", "algbw", "busbw", "#wrong"};
    int times = 0;
    for (auto at = columns.begin(); at != columns.end(); ++at)
        if (*at == "time") {
            if (columns.end() - at < 4 || !std::equal(four.begin(), four.end(), at)) return false;
            ++times;
        }
    return times == 2;
}

class TableReader {
  public:
    explicit TableReader(std::string path) : path_(std::move(path)) {}

    NcclTests read(const std::string& text) {
        std::istringstream in(text);
        for (std::string line; std::getline(in, line);) {
            ++line_;
            if (begins(line, "#"))
                read_comment(line.substr(1));
            else if (in_table_)
                read_row(line);
            else
                read_library(line);
        }
        finish_run();
        return std::move(tests_);
    }

  private:
    std::string here() const { return fmt::format("{}:{}", path_, line_); }
    void fault(const std::string& what) { tests_.faults.push_back(here() + ": " + what); }

    // A line of the head: after a table it begins the next run.
    NcclRun& head() {
        if (!columns_.empty()) finish_run();
        if (run_.place.empty()) run_.place = here();
        return run_;
    }

    void read_comment(const std::string& line) {
        const Words words = words_of(line);
        if (words.empty()) return;
        if (words[0] == "nccl-tests") {
            for (const std::string& word : words)
                if (begins(word, "nccl-library="))
                    head().nccl_version =
                        nccl_version_text(parsed<int>(word.substr(13)).value_or(0));
        } else if (words[0] == "Collective" && after(words, "test") == "starting:") {
            head().collective = collective_of_program(words.back());
        } else if (words[0] == "nThread") {
            head();
            ranks_per_process_ =
                std::int64_t{whole_after(words, "nThread")} * whole_after(words, "nGpus");
        } else if (words[0] == "Rank") {
            read_rank(words, line);
        } else if (words[0] == "size" && !after(words, "busbw").empty()) {
            begin_table(words);
        } else if (words[0] == "Avg") {
            in_table_ = false;
        }
    }

    void read_rank(const Words& words, const std::string& line) {
        ++head().ranks;
        hosts_.insert(after(words, "on"));
        groups_.insert(after(words, "Group"));
        const std::size_t bracket = line.find("] ");
        if (bracket != std::string::npos) run_.device = line.substr(bracket + 2);
        while (!run_.device.empty() && run_.device.back() == '\r')
            run_.device.pop_back();
    }

    void begin_table(const Words& words) {
        const auto last_name = std::find(words.begin(), words.end(), "root");
        columns_.assign(last_name == words.end() ? words.begin() : last_name + 1, words.end());
        in_table_ = true;
        if (!are_those_of_timings(columns_)) {
            fault(
                "the columns time, algbw, busbw, #wrong are expected twice after root (nccl-tests "
                "2.13 or later, without -C)");
            in_table_ = false;
            is_readable_ = false;
        }
    }

    // Columns from the right: an empty redop or root leaves no word.
    void read_row(const std::string& line) {
        const Words words = words_of(line);
        if (words.empty() || line.find(" NCCL ") != std::string::npos) return;  // NCCL_DEBUG's
        std::size_t measured = columns_.size();
        if (columns_.back() == "timestamp") ++measured;  // a date and a time
        if (words.size() < 3 + measured || words.size() > 5 + measured) {
            fault(fmt::format("{} words, a row of this table has {}: '{}'", words.size(),
                              5 + measured, fmt::join(words, " ")));
            return;
        }
        const auto bytes = number(words[0]);
        if (!bytes || *bytes < 0) {
            fault(fmt::format("size '{}': a number of bytes is expected", words[0]));
            return;
        }
        if (*bytes == 0) return;  // fewer bytes than ranks to share them: nothing was sent
        const Words cells(words.end() - static_cast<std::ptrdiff_t>(measured), words.end());
        for (std::size_t column = 0; column < columns_.size(); ++column)
            if (columns_[column] == "time") read_timing(cells, column, words[2], *bytes);
    }

    // time, algbw, busbw and #wrong from `column` on.
    void read_timing(const Words& cells, std::size_t column, const std::string& type,
                     double bytes) {
        if (cells[column] == "N/A") return;  // not done in place
        const auto microseconds = number(cells[column]);
        const auto bus = number(cells[column + 2]);
        const auto wrong = number(cells[column + 3]);
        if (!microseconds) fault(fmt::format("time '{}': not a number", cells[column]));
        if (!bus) fault(fmt::format("busbw '{}': not a number", cells[column + 2]));
        if (!wrong && cells[column + 3] != "N/A")
            fault(fmt::format("#wrong '{}': not a number", cells[column + 3]));
        if (microseconds && bus)
            run_.timings.push_back({here(), type, bytes, *microseconds * 1e-6, *bus, wrong});
    }

    // "NCCL version 2.19.3+cuda12.2", with NCCL_DEBUG=VERSION.
    void read_library(const std::string& line) {
        const std::string version = after(words_of(line), "version");
        if (line.find("NCCL version ") != std::string::npos && run_.nccl_version.empty())
            run_.nccl_version = version.substr(0, version.find('+'));
    }

    void finish_run() {
        if (run_.place.empty() && columns_.empty()) return;
        if (run_.place.empty()) run_.place = path_;
        if (columns_.empty()) {
            tests_.faults.push_back(run_.place + ": a run without a table");
        } else if (!is_readable_) {
            // said where its columns are named
        } else if (in_table_) {
            fault("the table has no end ('# Avg bus bandwidth'): the run was cut short");
        } else if (run_.ranks == 0 || ranks_per_process_ < 1 ||
                   run_.ranks % ranks_per_process_ != 0) {
            tests_.faults.push_back(
                fmt::format("{}: {} lines '#  Rank' of processes with {} ranks each", run_.place,
                            run_.ranks, ranks_per_process_));
        } else {
            run_.nodes = static_cast<int>(hosts_.size());
            run_.groups = static_cast<int>(groups_.size());
            tests_.runs.push_back(run_);
        }
        run_ = {};
        hosts_.clear();
        groups_.clear();
        columns_.clear();
        ranks_per_process_ = 0;
        in_table_ = false;
        is_readable_ = true;
    }

    std::string path_;
    std::size_t line_ = 0;
    NcclRun run_;
    std::set<std::string> hosts_;
    std::set<std::string> groups_;
    std::int64_t ranks_per_process_ = 0;
    Words columns_;  // behind root; empty before the table
    bool in_table_ = false;
    bool is_readable_ = true;  // the columns are
    NcclTests tests_;
};

}  // namespace

NcclTests read_nccl_table(const std::string& text, const std::string& path) {
    return TableReader(path).read(text);
}

}  // namespace orrery::fit
