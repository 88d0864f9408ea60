#ifndef SKIFF_TOOLS_COMMON_PROCESS_H_
#define SKIFF_TOOLS_COMMON_PROCESS_H_

namespace skiff::tools {

// What every program of Skiff does first in main(), before any thread:
//
// Opens /dev/null in place of those descriptors from 0 to 2 that whoever
// started the program has closed. Otherwise the first socket or disk would
// become standard error, and what is printed would be written to it. To read
// from there, or to write to there, stays an error: nothing is lost in silence.
//
// Ignores SIGPIPE and SIGXFSZ, so that a peer that went away, or a file that
// may not grow further (ulimit -f), is an error of that call alone.
//
// False when /dev/null cannot be opened, which leaves nowhere to say so.
bool PrepareProcess();

// Whether whoever started the program had it ignore a signal, as nohup(1) does
// with SIGHUP, and a shell with SIGINT for what runs in its background. To be
// asked before the signal's disposition is changed.
bool StartedIgnoring(int signal);

}  // namespace skiff::tools

#endif  // SKIFF_TOOLS_COMMON_PROCESS_H_
