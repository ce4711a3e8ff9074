// The check of kernels on a machine with GPUs, as a program's main function.
#pragma once

namespace orrery::runtime::gpu_check {

int check_program(int argc, char** argv);

}  // namespace orrery::runtime::gpu_check
