#ifndef SKIFF_TOOLS_CLIENTS_NBDKIT_SETTINGS_H_
#define SKIFF_TOOLS_CLIENTS_NBDKIT_SETTINGS_H_

#include <skiff/skiff.h>

/* What nbdkit's command line said. Written before threads are there. */
struct settings {
  const char* url;        /* NULL: it was not given. */
  char shown[512];        /* The URL without passwords. */
  uint32_t check;         /* 1: connect once before nbdkit says it is ready. */
  uint32_t threads;       /* Of the context. */
  uint32_t context_flags; /* SKIFF_CONTEXT_*. */
  skiff_disk_options disk;
};

extern struct settings settings;

/* One line for each key, for `nbdkit skiff --help`. */
extern const char kSettingsHelp[];

/* Before all others. */
void settings_init(void);

/* A key=value of the command line. 0, or -1 after nbdkit_error(). */
int settings_set(const char* key, const char* value);

#endif /* SKIFF_TOOLS_CLIENTS_NBDKIT_SETTINGS_H_ */
