# orrery_cuda: the CUDA backend, for preset `cuda`. The CUDA runtime is linked in; cuBLASLt, NCCL
# and cuDNN are the machine's that it runs on, opened when they are first called: here their headers are enough.
find_package(CUDAToolkit)
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    message(FATAL_ERROR "ORRERY_CUDA is ON but nvcc was not found (looked in PATH, CUDAToolkit_ROOT and "
        "/usr/local/cuda); install the CUDA toolkit, or build without -DORRERY_CUDA=ON")
endif()
find_path(ORRERY_CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT ORRERY_CUBLASLT_INCLUDE)
    message(FATAL_ERROR "cublasLt.h was not found beside ${CUDAToolkit_NVCC_EXECUTABLE}; on Debian: "
        "apt-get install libcublas-dev-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}")
endif()
find_path(ORRERY_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT ORRERY_NCCL_INCLUDE)
    message(FATAL_ERROR "nccl.h was not found; on Debian with NVIDIA's repository: "
        "apt-get install libnccl-dev")
endif()
find_path(ORRERY_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT ORRERY_CUDNN_INCLUDE)
    message(FATAL_ERROR "cudnn_graph.h, of cuDNN 9, was not found; on Debian with NVIDIA's repository: "
        "apt-get install libcudnn9-dev-cuda-${CUDAToolkit_VERSION_MAJOR}")
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "nvcc")
if(ORRERY_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${ORRERY_CCACHE})
endif()
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "The compiler behind nvcc")
# Machine code of A100, of H100 and, from the toolkit on that has it, of B200, for them and their kin; PTX of the last
# for what comes after.
set(shipped_architectures 80-real 90)
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    set(shipped_architectures 80-real 90-real 100)
endif()
set(CMAKE_CUDA_ARCHITECTURES ${shipped_architectures} CACHE STRING "As CMake spells them")
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cuda/*.cu)
orrery_library(orrery_cuda runtime/cuda orrery_runtime)
target_sources(orrery_cuda PRIVATE ${cuda_sources})
target_include_directories(orrery_cuda SYSTEM PRIVATE
    ${ORRERY_CUBLASLT_INCLUDE} ${ORRERY_NCCL_INCLUDE} ${ORRERY_CUDNN_INCLUDE})
target_link_libraries(orrery_cuda PRIVATE CUDA::cudart_static)
# Products and sums are contracted where the source says fma, and nowhere else: elementwise kernels
# then give the CPU's bits on every architecture, and the exact split of the gradient norm stays
# exact. constexpr functions of the standard library (bit_cast, array) are called in kernels.
target_compile_options(orrery_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--expt-relaxed-constexpr>")
# A third of the bytes, in the folder that goes to the nodes; the driver unpacks them once a process.
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    target_compile_options(orrery_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")
endif()
