#include "tools/library/compare_and_write.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace skiff::library {
namespace {

using scsi::IoRequest;
using scsi::IoStatus;

// The pieces of `length` bytes of the request's memory from `from` on: what is
// expected is first, what is to be written follows it.
std::vector<iovec> PiecesOf(const IoRequest& request, uint64_t from,
                            uint64_t length) {
  std::vector<iovec> pieces;
  for (int i = 0; i < request.iov_count && length > 0; ++i) {
    const iovec& piece = request.iov[i];
    if (from >= piece.iov_len) {
      from -= piece.iov_len;
      continue;
    }
    const uint64_t size = std::min<uint64_t>(piece.iov_len - from, length);
    pieces.push_back({static_cast<uint8_t*>(piece.iov_base) + from, size});
    from = 0;
    length -= size;
  }
  return pieces;
}

// Whether `found` is what the request expects. If not, it is told where.
bool Equal(IoRequest* request, const uint8_t* found) {
  uint64_t at = 0;
  for (const iovec& piece : PiecesOf(*request, 0, request->length)) {
    const auto* expected = static_cast<const uint8_t*>(piece.iov_base);
    const uint8_t* const end = expected + piece.iov_len;
    const uint8_t* const differs =
        std::mismatch(expected, end, found + at).first;
    if (differs != end) {
      request->status = IoStatus::kMiscompare;
      request->error_offset =
          request->offset + at + static_cast<uint64_t>(differs - expected);
      return false;
    }
    at += piece.iov_len;
  }
  return true;
}

}  // namespace

CompareAndWrite::CompareAndWrite(scsi::BackendChannel* channel,
                                 IoRequest* request)
    : channel_(channel), request_(request), found_(request->length) {
  iov_ = {{found_.data(), found_.size()}};
  step_.op = IoRequest::Op::kRead;
  step_.offset = request->offset;
  step_.length = request->length;
  step_.iov = iov_.data();
  step_.iov_count = 1;
  step_.context = this;
  step_.done = [](IoRequest* step) {
    static_cast<CompareAndWrite*>(step->context)->OnStep();
  };
}

bool CompareAndWrite::Submit(scsi::BackendChannel* channel,
                             IoRequest* request) {
  CompareAndWrite* self = nullptr;
  try {
    self = new CompareAndWrite(channel, request);
  } catch (const std::bad_alloc&) {
    request->status = IoStatus::kNoMemory;
    return true;
  }
  request->backend_data = self;
  if (!channel->Submit(&self->step_) || !self->Advance()) return false;
  delete self;
  return true;
}

bool CompareAndWrite::Cancel(scsi::BackendChannel* channel,
                             IoRequest* request) {
  auto* const self = static_cast<CompareAndWrite*>(request->backend_data);
  if (!channel->Cancel(&self->step_)) return false;
  delete self;
  return true;
}

bool CompareAndWrite::Advance() {
  for (;;) {
    if (step_.status != IoStatus::kOk) {
      request_->status = step_.status;
      request_->error_offset = step_.error_offset;
      request_->system_error = step_.system_error;
      request_->reason = step_.reason;
      return true;
    }
    if (step_.op == IoRequest::Op::kWrite) {
      request_->status = IoStatus::kOk;
      return true;
    }
    if (!Equal(request_, found_.data())) return true;
    iov_ = PiecesOf(*request_, request_->length, request_->length);
    step_.op = IoRequest::Op::kWrite;
    step_.fua = request_->fua;
    step_.iov = iov_.data();
    step_.iov_count = static_cast<int>(iov_.size());
    if (!channel_->Submit(&step_)) return false;
  }
}

void CompareAndWrite::OnStep() {
  if (!Advance()) return;
  IoRequest* const request = request_;
  delete this;
  request->done(request);  // The channel may go with it.
}

void CompareAndWrite::InMemory(IoRequest* request, uint8_t* at) {
  if (!Equal(request, at)) return;
  for (const iovec& piece :
       PiecesOf(*request, request->length, request->length)) {
    std::memcpy(at, piece.iov_base, piece.iov_len);
    at += piece.iov_len;
  }
  request->status = IoStatus::kOk;
}

}  // namespace skiff::library
