/* Loads a shared object that uses the library, runs it, and unloads both: no
   thread stays, and no mapping. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 4 };

static int threads(void) {
  int count = -2; /* . and .. */
  DIR* tasks = opendir("/proc/self/task");
  while (readdir(tasks) != NULL) ++count;
  closedir(tasks);
  return count;
}

static int mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof(line), maps) != NULL) {
    found |= strstr(line, name) != NULL;
  }
  fclose(maps);
  return found;
}

static void fail(const char* what) {
  fprintf(stderr, "unload: %s\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) fail("give it the plugin");
  for (int i = 0; i < TIMES; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) fail(dlerror());
    int (*run)(void) = NULL;
    *(void**)&run = dlsym(plugin, "plugin_run");
    if (run == NULL || run() != 0) fail("the plugin failed");
    if (threads() != 1) fail("threads are left when the context is closed");
    if (dlclose(plugin) != 0) fail(dlerror());
    if (mapped("libskiff")) fail("the library is still mapped");
  }
  puts("unload: done");
  return 0;
}
