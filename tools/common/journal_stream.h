#ifndef SKIFF_TOOLS_COMMON_JOURNAL_STREAM_H_
#define SKIFF_TOOLS_COMMON_JOURNAL_STREAM_H_

namespace skiff::tools {

// Whether what is written to `fd` goes straight to systemd's journal: it is the
// file that JOURNAL_STREAM names by "device:inode", in decimal
// (systemd.exec(5)). The variable alone says nothing: programs inherit it
// whose standard error is another file. False where it is not set, is no such
// pair, or `fd` is closed.
bool IsJournalStream(int fd);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_JOURNAL_STREAM_H_
