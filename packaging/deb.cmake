# cpack makes a Debian package: cpack -G DEB --config build/release/CPackConfig.cmake. It takes libraries from Debian's
# packages, not along, and leaves the library for other programs, the module for Python and MPI out.
get_cmake_property(components COMPONENTS)
list(REMOVE_ITEM components libraries library python mpi)
if(NOT ORRERY_CUDA)
    list(REMOVE_ITEM components checks)
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_NAME orrery)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${ORRERY_MAINTAINER}")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS man-db)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "predicts and performs training steps of language models
Orrery simulates what every GPU of a cluster does in a training step of a
large language model, from one plan: how long it takes, what it holds in
memory, what a run costs, which layout is best. The same plan is performed by
its training runtime, so that prediction and measurement are compared op by
op.")
# What Debian asks of a package beyond what is installed: compressed pages, a copyright file, a changelog.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/finish_deb.cmake)
set(CPACK_ORRERY_SOURCE ${PROJECT_SOURCE_DIR})
include(CPack)
