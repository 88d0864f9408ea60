#ifndef SKIFF_TOOLS_LIBRARY_COMPARE_AND_WRITE_H_
#define SKIFF_TOOLS_LIBRARY_COMPARE_AND_WRITE_H_

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "scsi/backend/backend.h"

namespace skiff::library {

// COMPARE AND WRITE on a medium that has only reads and writes: a read, the
// comparison, and a write. The logical unit lets no other write run meanwhile.
class CompareAndWrite {
 public:
  CompareAndWrite(const CompareAndWrite&) = delete;
  CompareAndWrite& operator=(const CompareAndWrite&) = delete;

  // As BackendChannel::Submit(): true if it is finished already.
  static bool Submit(scsi::BackendChannel* channel, scsi::IoRequest* request);
  // As BackendChannel::Cancel(), for what Submit() was given. No other request
  // may be asked about.
  static bool Cancel(scsi::BackendChannel* channel, scsi::IoRequest* request);

  // On a medium that is memory: `at` is where the request begins.
  static void InMemory(scsi::IoRequest* request, uint8_t* at);

 private:
  CompareAndWrite(scsi::BackendChannel* channel, scsi::IoRequest* request);
  ~CompareAndWrite() = default;

  // A step has ended. True: the request has, too.
  bool Advance();
  void OnStep();

  scsi::BackendChannel* const channel_;
  scsi::IoRequest* const request_;
  scsi::IoRequest step_;
  std::vector<uint8_t> found_;
  std::vector<iovec> iov_;
};

}  // namespace skiff::library

#endif  // SKIFF_TOOLS_LIBRARY_COMPARE_AND_WRITE_H_
