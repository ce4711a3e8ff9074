// The flight recorders of the ranks that this process has, among those that are written while the
// object lives: for no longer than the plan whose ops they point to.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "runtime/flight/flight_records.hpp"

namespace orrery::runtime {

class RankRecorders {
  public:
    // mpirun gives ranks two seconds when one has been killed, and none when a second one ends: who
    // has written its record leaves the others this time for theirs.
    static constexpr std::chrono::milliseconds kOthersTime{300};

    // `records`: null: none are written.
    RankRecorders(const plan::Mesh& mesh, std::span<const plan::Rank> ranks,
                  FlightRecords* records);
    ~RankRecorders();
    RankRecorders(const RankRecorders&) = delete;
    RankRecorders& operator=(const RankRecorders&) = delete;

    FlightRecorder& of(plan::Rank rank) { return *all_.at(rank); }
    // FlightRecords::write_failure().
    void write(const std::string& reason);

  private:
    FlightRecords* records_;
    std::map<plan::Rank, std::unique_ptr<FlightRecorder>> all_;
};

}  // namespace orrery::runtime
