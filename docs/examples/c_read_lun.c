/* Prints the size of a LUN, and its first block:
   c_read_lun iscsi://HOST[:PORT]/TARGET/LUN */
#include <skiff/skiff.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, skiff_last_error());
  return 1;
}

int main(int argc, char **argv) {
  skiff_context *context;
  skiff_disk *disk;
  skiff_disk_info info;
  unsigned char *block;

  if (argc != 2) return 2;
  if (skiff_context_create(NULL, &context) != 0) return fail("context");
  if (skiff_disk_open(context, argv[1], NULL, NULL, NULL, &disk) != 0) {
    return fail(argv[1]);
  }
  SKIFF_INIT(info);
  if (skiff_disk_get_info(disk, &info) != 0) return fail("info");
  printf("%llu\n", (unsigned long long)info.size_bytes);

  block = malloc(info.block_size);
  if (block == NULL) return 1;
  if (skiff_disk_read(disk, 0, block, info.block_size, NULL, NULL) != 0) {
    return fail("read");
  }
  for (unsigned i = 0; i < info.block_size; i++) printf("%02x", block[i]);
  printf("\n");
  free(block);

  if (skiff_disk_close(disk, NULL, NULL) != 0) return fail("close");
  return skiff_context_close(context) == 0 ? 0 : fail("close");
}
