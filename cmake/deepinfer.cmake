# The rooms of the project: one static library each, tests beside the code.

find_package(Threads REQUIRED)
if(DEEPINFER_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

add_library(deepinfer_flags INTERFACE)
target_include_directories(deepinfer_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
# -ffp-contract=off: a fused multiply-add happens where the code says so and nowhere else, else the
# same source gives other bits on another instruction set (docs/numerics.md).
target_compile_options(deepinfer_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-restrict -ffp-contract=off)
target_link_libraries(deepinfer_flags INTERFACE Threads::Threads)
if(DEEPINFER_SANITIZE)
  target_compile_options(deepinfer_flags INTERFACE -fsanitize=${DEEPINFER_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(deepinfer_flags INTERFACE -fsanitize=${DEEPINFER_SANITIZE})
endif()

# deepinfer_room(NAME SOURCES a.cc ... DEPS room|library ... [PRIVATE_DEPS ...])
# makes the static library deepinfer_NAME. DEPS that are rooms are written by their short name.
function(deepinfer_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(deepinfer_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(deepinfer_${name} PUBLIC deepinfer_flags)
  foreach(visibility PUBLIC PRIVATE)
    if(visibility STREQUAL "PUBLIC")
      set(deps ${ROOM_DEPS})
    else()
      set(deps ${ROOM_PRIVATE_DEPS})
    endif()
    foreach(dep ${deps})
      if(TARGET deepinfer_${dep})
        target_link_libraries(deepinfer_${name} ${visibility} deepinfer_${dep})
      else()
        target_link_libraries(deepinfer_${name} ${visibility} ${dep})
      endif()
    endforeach()
  endforeach()
endfunction()

# deepinfer_room_tests(NAME a_test.cc ... [DEPS ...]) makes deepinfer_NAME_tests and registers each
# test with CTest. Tests read golden data from DEEPINFER_GOLDEN_DIR and the bundled checkpoint from
# DEEPINFER_MODELS_DIR.
function(deepinfer_room_tests name)
  if(NOT DEEPINFER_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(TESTS "" "" "DEPS" ${ARGN})
  add_executable(deepinfer_${name}_tests ${TESTS_UNPARSED_ARGUMENTS})
  if(TARGET deepinfer_${name})
    target_link_libraries(deepinfer_${name}_tests PRIVATE deepinfer_${name})
  endif()
  foreach(dep ${TESTS_DEPS})
    if(TARGET deepinfer_${dep})
      target_link_libraries(deepinfer_${name}_tests PRIVATE deepinfer_${dep})
    else()
      target_link_libraries(deepinfer_${name}_tests PRIVATE ${dep})
    endif()
  endforeach()
  target_link_libraries(deepinfer_${name}_tests PRIVATE deepinfer_flags GTest::gmock GTest::gtest_main)
  target_compile_definitions(
    deepinfer_${name}_tests PRIVATE DEEPINFER_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden"
                                    DEEPINFER_MODELS_DIR="${CMAKE_SOURCE_DIR}/models")
  gtest_discover_tests(deepinfer_${name}_tests DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
