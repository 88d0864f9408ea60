/// @file
/// Skiff's interface for C: everything. The rules that hold for every function
/// are in skiff/common.h.
#ifndef SKIFF_SKIFF_H_
#define SKIFF_SKIFF_H_

#include <skiff/backend.h>
#include <skiff/common.h>
#include <skiff/disk.h>
#include <skiff/target.h>

#endif  // SKIFF_SKIFF_H_
