#ifndef SKIFF_TOOLS_CLIENTS_NBDKIT_EXTENTS_H_
#define SKIFF_TOOLS_CLIENTS_NBDKIT_EXTENTS_H_

#include <stdint.h>

#include "tools/clients/nbdkit/disk.h"

struct nbdkit_extents;

/* Adds what the device says of its blocks from `offset` on (GET LBA STATUS,
 * SBC-3 section 5.5): allocated, or holes. A device that does not say has
 * allocated all. At least one extent is added; clients ask on.
 *
 * 0, or -1 after nbdkit_error(); then `*error` is an errno, or 0 where nbdkit
 * knows it already. */
int extents_add(const struct disk* disk, uint32_t count, uint64_t offset,
                struct nbdkit_extents* extents, int* error);

#endif /* SKIFF_TOOLS_CLIENTS_NBDKIT_EXTENTS_H_ */
