#include "runtime/flight/rank_recorders.hpp"

namespace orrery::runtime {

RankRecorders::RankRecorders(const plan::Mesh& mesh, std::span<const plan::Rank> ranks,
                             FlightRecords* records)
    : records_(records) {
    for (const plan::Rank rank : ranks) {
        auto& recorder = all_[rank] = std::make_unique<FlightRecorder>(mesh, rank);
        if (records_ != nullptr) records_->add(*recorder);
    }
}

RankRecorders::~RankRecorders() {
    for (const auto& [rank, recorder] : all_)
        if (records_ != nullptr) records_->remove(*recorder);
}

void RankRecorders::write(const std::string& reason) {
    if (records_ != nullptr) records_->write_failure(reason);
}

}  // namespace orrery::runtime
