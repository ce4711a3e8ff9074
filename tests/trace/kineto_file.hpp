// A file as PyTorch's profiler writes them, of two operators of the forward pass, one of the
// backward pass, a collective beside compute, and a copy.
#pragma once

#include <string>

namespace orrery::trace {

//  host, thread 100:  |aten::mm [launch 1]|      |evaluate_function: [launch 2] | [launch 3] [4]
//  GPU, stream 7:          |gemm 10..20|              |gemm 40..60|
//  GPU, stream 20:                                        |nccl 50..75|
//  GPU, stream 7:                                                          |memcpy 80..85|
inline const std::string kKinetoFile = R"json({
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "regsPerBlock": 65536}],
  "distributedInfo": {"backend": "nccl", "rank": 0, "pg_config": [{"ranks": [0, 1]}]},
  "displayTimeUnit": "ms", "baseTimeNanoseconds": 1745000000000000000,
  "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 99, "tid": 100,
   "ts": 1700000000000005.000, "dur": 4.000,
   "args": {"External id": 7, "Input Dims": [[4, 4], [4, 4]], "Ev Idx": 0}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 99, "tid": 100,
   "ts": 1700000000000006.000, "dur": 2.000, "args": {"correlation": 1, "External id": 7}},
  {"ph": "s", "id": 1, "pid": 99, "tid": 100, "ts": 1700000000000006.000, "cat": "ac2g",
   "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": 0, "tid": 7,
   "ts": 1700000000000010.000, "dur": 10.000,
   "args": {"stream": 7, "correlation": 1, "External id": 7, "device": 0, "grid": [1, 2, 3]}},
  {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 1700000000000010.000, "cat": "ac2g",
   "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0",
   "pid": 99, "tid": 100, "ts": 1700000000000030.000, "dur": 8.000, "args": {"External id": 9}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 99, "tid": 100,
   "ts": 1700000000000032.500, "dur": 1.250, "args": {"correlation": 2}},
  {"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": 0, "tid": 7,
   "ts": 1700000000000040.000, "dur": 20.000, "args": {"stream": 7, "correlation": 2}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 99, "tid": 100,
   "ts": 1700000000000041.000, "dur": 1.000, "args": {"correlation": 3}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0,
   "tid": 20, "ts": 1700000000000050.000, "dur": 25.000, "args": {"stream": 20, "correlation": 3}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 99, "tid": 100,
   "ts": 1700000000000078.000, "dur": 1.000, "args": {"correlation": 4}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 0, "tid": 7,
   "ts": 1700000000000080.000, "dur": 5.001,
   "args": {"stream": 7, "correlation": 4, "bytes": 64}},
  {"ph": "i", "s": "t", "name": "[memory]", "pid": 99, "tid": 100, "ts": 1700000000000081.000,
   "args": {"Total Allocated": 4096}},
  {"name": "process_name", "ph": "M", "ts": 0, "pid": 0, "tid": 0, "args": {"name": "python"}},
  {"name": "process_labels", "ph": "M", "ts": 0, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
  {"name": "process_sort_index", "ph": "M", "ts": 0, "pid": 0, "tid": 0,
   "args": {"sort_index": 5000000}},
  {"name": "process_name", "ph": "M", "ts": 0, "pid": 99, "tid": 0, "args": {"name": "python"}},
  {"name": "process_labels", "ph": "M", "ts": 0, "pid": 99, "tid": 0, "args": {"labels": "CPU"}},
  {"name": "thread_name", "ph": "M", "ts": 0, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}}
  ],
  "traceName": "rank0.pt.trace.json"
})json";

}  // namespace orrery::trace
