#include "tools/clients/nbdkit/settings.h"

#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

struct settings settings;

const char kSettingsHelp[] =
    "[url=]URL              iscsi://, iser:// or "
    "auto://HOST[:PORT]/TARGET/LUN\n"
    "                       (required)\n"
    "initiator-name=NAME    the iSCSI name to log in by\n"
    "check=false            start although the disk cannot be reached\n"
    "threads=N              that do the network's work (1)\n"
    "spin=true              they never sleep\n"
    "max-commands=N         in flight, for each client's connection (64)\n"
    "header-digest=true     ask for CRC32C over headers (iscsi://)\n"
    "data-digest=true       ask for CRC32C over data (iscsi://)\n"
    "connect-timeout=SECS   for a connection (10)\n"
    "login-timeout=SECS     for a login (15)\n"
    "command-timeout=SECS   for one command of SCSI (60)\n"
    "ping-interval=SECS     of silence, before the target is asked (5)\n"
    "ping-timeout=SECS      for its answer (5)\n"
    "restore-timeout=SECS   that I/O waits for a target that is gone (120)";

enum kind { kText, kNumber, kSeconds, kFlag };

struct setting {
  const char* key;
  enum kind kind;
  void* value;
  uint32_t most; /* kFlag: the bit. */
};

/* The library bounds this number, too, but would tell only after the fork. */
#define MAX_THREADS 1024
#define MAX_SECONDS 86400

static const struct setting kSettings[] = {
    {"url", kText, &settings.url, 0},
    {"initiator-name", kText, &settings.disk.initiator_name, 0},
    {"check", kFlag, &settings.check, 1},
    {"threads", kNumber, &settings.threads, MAX_THREADS},
    {"spin", kFlag, &settings.context_flags, SKIFF_CONTEXT_SPIN},
    {"max-commands", kNumber, &settings.disk.max_commands, UINT32_MAX},
    {"header-digest", kFlag, &settings.disk.flags, SKIFF_DISK_HEADER_DIGEST},
    {"data-digest", kFlag, &settings.disk.flags, SKIFF_DISK_DATA_DIGEST},
    {"connect-timeout", kSeconds, &settings.disk.connect_timeout_ms,
     MAX_SECONDS},
    {"login-timeout", kSeconds, &settings.disk.login_timeout_ms, MAX_SECONDS},
    {"command-timeout", kSeconds, &settings.disk.command_timeout_ms,
     MAX_SECONDS},
    {"ping-interval", kSeconds, &settings.disk.ping_interval_ms, MAX_SECONDS},
    {"ping-timeout", kSeconds, &settings.disk.ping_timeout_ms, MAX_SECONDS},
    {"restore-timeout", kSeconds, &settings.disk.restore_timeout_ms,
     MAX_SECONDS},
};

void settings_init(void) {
  settings.check = 1;
  settings.threads = 1;
  SKIFF_INIT(settings.disk);
}

static int set_number(const struct setting* setting, const char* value) {
  uint32_t* place = setting->value;
  uint32_t number = 0;
  if (nbdkit_parse_uint32_t(setting->key, value, &number) != 0) return -1;
  /* To the library, 0 is the default, which nobody means who writes it. */
  if (number == 0 || number > setting->most) {
    nbdkit_error("%s=%s: it has to be from 1 to %u", setting->key, value,
                 setting->most);
    return -1;
  }
  *place = setting->kind == kSeconds ? number * 1000 : number;
  return 0;
}

static int set_flag(const struct setting* setting, const char* value) {
  uint32_t* flags = setting->value;
  const int on = nbdkit_parse_bool(value);
  if (on < 0) return -1;
  *flags = on ? *flags | setting->most : *flags & ~setting->most;
  return 0;
}

int settings_set(const char* key, const char* value) {
  for (size_t i = 0; i < sizeof(kSettings) / sizeof(kSettings[0]); ++i) {
    const struct setting* setting = &kSettings[i];
    if (strcmp(setting->key, key) != 0) continue;
    switch (setting->kind) {
      case kText:
        /* nbdkit keeps it as long as the plugin is there. */
        *(const char**)setting->value = value;
        return 0;
      case kFlag:
        return set_flag(setting, value);
      default:
        return set_number(setting, value);
    }
  }
  nbdkit_error("unknown parameter '%s': `nbdkit skiff --help` lists them", key);
  return -1;
}
