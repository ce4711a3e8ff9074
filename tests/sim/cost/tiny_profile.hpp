// A profile with round numbers, so that tests can price by hand. 100 TFLOP/s, 1000 GB/s.
#pragma once

#include <string>

namespace orrery::sim {

inline std::string tiny_profile_text() {
    return R"({
  "format": "orrery profile", "version": 1, "device": "tiny", "provenance": ["made up for tests"],
  "hardware": {"source": "made up", "capacity_bytes": 16e9, "memory_GBps": 1000,
               "cache_bytes": 40e6, "multiprocessors": 10,
               "power_w": {"value": 300, "source": "its sticker"},
               "peak_tflops": {"bf16": 120, "fp32": 10}},
  "gemm": {
    "bf16": {"measured": false, "source": "made up", "t0_us": 5, "rate_tflops": 100,
             "bandwidth_GBps": 2000, "sustained": 0.8, "relative_sd": 0.05},
    "fp32": {"measured": false, "source": "made up", "t0_us": 6, "rate_tflops": 10,
             "bandwidth_GBps": 1000, "sustained": 1, "relative_sd": 0.2}},
  "batched_gemm": {"source": "made up", "rate_ratio": 0.5, "relative_sd": 0.2},
  "attention": {"dtype": "bf16",
    "forward": {
      "128": {"measured": true, "source": "made up", "t0_us": 20, "query_element_ps": 8,
              "key_element_ps": 4, "rate_tflops": 50, "relative_sd": 0.04,
              "sequence": [512, 8192],
              "held_out": {"rows": 9, "mean_abs_error": 0.03, "median_abs_error": 0.02,
                           "p95_abs_error": 0.1}},
      "64": {"measured": false, "source": "made up", "t0_us": 10, "query_element_ps": 8,
             "key_element_ps": 4, "rate_tflops": 40, "relative_sd": 0.04}},
    "backward": {"source": "made up", "flop_ratio": 2.5, "rate_ratio": 0.5,
                 "relative_sd": 0.2}},
  "memory": {"measured": false, "source": "made up", "t0_us": 2, "reduction_t0_us": 7,
             "efficiency": 0.8, "resident_bytes": 20e6, "cache_GBps": 5000, "relative_sd": 0.15},
  "overlap": {"measured": false, "source": "made up", "compute_slowdown": 1.2}
})";
}

}  // namespace orrery::sim
