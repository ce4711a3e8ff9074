#include "plan/scenario/import/ranks.hpp"

#include <fmt/format.h>

#include "plan/scenario/arithmetic.hpp"

namespace orrery::plan::imports {

std::int64_t copied_degree(Sheet& sheet, const char* key, const char* to) {
    const Json value = sheet.copy({key, to, Direct::Kind::whole, "1"});
    const std::int64_t read = value.is_null() ? 1 : value.get<std::int64_t>();
    if (read >= 1 && read <= (1 << 20)) return read;
    sheet.report("I002", key, fmt::format("{} takes a degree from 1 on", key));
    return 1;
}

std::optional<std::int64_t> settle_data_parallel(Sheet& sheet, const Ranks& ranks,
                                                 std::int64_t tensor, std::int64_t pipeline,
                                                 std::int64_t context) {
    if (!ranks.count) {
        sheet.put_usual("layout.data_parallel", "auto", "ranks of the run");
        sheet.miss("layout.data_parallel", ranks.why + "; --gpus N says it",
                   "\"auto\": what the other degrees leave of the cluster");
        return std::nullopt;
    }
    const std::int64_t model = tensor * pipeline * context;
    if (*ranks.count < 1 || *ranks.count % model != 0) {
        sheet.report("I004", ranks.from, "the degrees of parallelism do not divide the ranks")
            .arithmetic =
            fmt::format("ranks / (tensor × pipeline × context) = {} / ({} × {} × {}) = {}",
                        *ranks.count, tensor, pipeline, context, quotient(*ranks.count, model));
        return std::nullopt;
    }
    sheet.put("layout.data_parallel", *ranks.count / model, ranks.from,
              fmt::format("{} ranks / ({} × {} × {})", *ranks.count, tensor, pipeline, context));
    return *ranks.count / model;
}

bool check_batch(Sheet& sheet, const std::string& key, std::int64_t global, std::int64_t micro,
                 std::int64_t data) {
    if (global > 0 && micro > 0 && global % (micro * data) == 0) return true;
    sheet.report("I004", key, "the global batch is no whole number of micro-batches").arithmetic =
        micro > 0 ? fmt::format(
                        "global batch / (micro-batch × data-parallel ranks) = {} / ({} × {}) = {}",
                        global, micro, data, quotient(global, micro * data))
                  : fmt::format("global batch = {}, micro-batch = {}", global, micro);
    return false;
}

}  // namespace orrery::plan::imports
