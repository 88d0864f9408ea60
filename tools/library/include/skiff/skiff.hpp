/// @file
/// All of the C++ interface but skiff/absl.hpp.
#ifndef SKIFF_SKIFF_HPP_
#define SKIFF_SKIFF_HPP_

#include <skiff/backend.hpp>
#include <skiff/bytes.hpp>
#include <skiff/context.hpp>
#include <skiff/disk.hpp>
#include <skiff/status.hpp>
#include <skiff/target.hpp>

#endif  // SKIFF_SKIFF_HPP_
