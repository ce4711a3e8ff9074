// How an op declares what it reads and writes. A struct of plan/ops has
//
//     template <typename V> void operands(V&& v) const {
//         v.reads("doutput", k, m);      the next tensor that it reads: rows of this width
//         v.reads("loss", 1);            … of at least so many elements
//         v.may_read("bias", n);         the next one, where one is left that is not written too
//         v.updates("sums", rows);       the next one, where it is written too: a sum to go on with
//         v.writes("result", m * n);     likewise of what it writes
//     }
//
// in the order of Op::reads and Op::writes. What an op reads beyond these and writes too are the
// sums that it adds to (plan/ir/accumulates.hpp).
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::plan {

// What a walk over operands calls for each: tells how often it may be there, and what it must hold.
enum class OperandUse : std::uint8_t {
    needed,             // once
    optional,           // once or not at all, and not written too
    in_place,           // once or not at all, and written too
    in_place_together,  // once or several times, written too, with so much in all
    halves,             // once, or twice with half of it each
    together,           // once or several times, with so much in all
    several             // once or several times
};

struct OperandSpec {
    std::string_view name;
    OperandUse use = OperandUse::needed;
    std::int64_t elements = 0;  // at least
    std::int64_t width = 0;     // of its rows; 0: any
};

// Calls read(OperandSpec) and write(OperandSpec) in the order of the declaration.
template <typename Read, typename Write>
class OperandWalk {
  public:
    OperandWalk(Read& read, Write& write) : read_(read), write_(write) {}

    void reads(std::string_view name, std::int64_t elements) {
        read_({name, OperandUse::needed, elements});
    }
    void reads(std::string_view name, std::int64_t rows, std::int64_t width) {
        read_({name, OperandUse::needed, rows * width, width});
    }
    void may_read(std::string_view name, std::int64_t elements) {
        read_({name, OperandUse::optional, elements});
    }
    void updates(std::string_view name, std::int64_t elements) {
        read_({name, OperandUse::in_place, elements});
    }
    void updates_together(std::string_view name, std::int64_t elements) {
        read_({name, OperandUse::in_place_together, elements});
    }
    void reads_whole_or_halves(std::string_view name, std::int64_t elements) {
        read_({name, OperandUse::halves, elements});
    }
    void reads_together(std::string_view name, std::int64_t elements) {
        read_({name, OperandUse::together, elements});
    }
    void reads_several(std::string_view name) { read_({name, OperandUse::several}); }

    void writes(std::string_view name, std::int64_t elements) {
        write_({name, OperandUse::needed, elements});
    }
    void may_write(std::string_view name, std::int64_t elements) {
        write_({name, OperandUse::optional, elements});
    }
    void writes_whole_or_halves(std::string_view name, std::int64_t elements) {
        write_({name, OperandUse::halves, elements});
    }
    void writes_together(std::string_view name, std::int64_t elements) {
        write_({name, OperandUse::together, elements});
    }
    void writes_several(std::string_view name) { write_({name, OperandUse::several}); }

  private:
    Read& read_;
    Write& write_;
};

}  // namespace orrery::plan
