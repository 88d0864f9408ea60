#include "tools/clients/libiscsi/task.h"

#include <cstdlib>
#include <cstring>

namespace skiff::libiscsi {

// One allocation of a task, before its bytes.
struct scsi_allocated_memory {
  scsi_allocated_memory* next;
  alignas(std::max_align_t) unsigned char bytes[1];
};

namespace {

bool AddBuffer(scsi_task* task, scsi_iovector* vector, int length,
               unsigned char* data) {
  if (length < 0 || data == nullptr) return false;
  if (vector->niov == vector->nalloc) {
    const int room = vector->nalloc == 0 ? 4 : 2 * vector->nalloc;
    // The old ones go with the task.
    auto* const iov = static_cast<iovec*>(
        scsi_malloc(task, sizeof(iovec) * static_cast<size_t>(room)));
    if (iov == nullptr) return false;
    if (vector->niov > 0)
      memcpy(iov, vector->iov, sizeof(iovec) * vector->niov);
    vector->iov = iov;
    vector->nalloc = room;
  }
  vector->iov[vector->niov++] = {data, static_cast<size_t>(length)};
  return true;
}

}  // namespace

FACE scsi_task* scsi_create_task(int cdb_size, unsigned char* cdb, int xfer_dir,
                                 int expxferlen) {
  if (cdb == nullptr || cdb_size < 0 || cdb_size > kMaxCdb) return nullptr;
  // With calloc(): QEMU makes tasks of its own that way, and frees all alike.
  auto* const task = static_cast<scsi_task*>(calloc(1, sizeof(scsi_task)));
  if (task == nullptr) return nullptr;
  memcpy(task->cdb, cdb, static_cast<size_t>(cdb_size));
  task->cdb_size = cdb_size;
  task->xfer_dir = xfer_dir;
  task->expxferlen = expxferlen;
  return task;
}

FACE void scsi_free_scsi_task(scsi_task* task) {
  if (task == nullptr) return;
  while (task->mem != nullptr) {
    scsi_allocated_memory* const memory = task->mem;
    task->mem = memory->next;
    free(memory);
  }
  free(task->datain.data);
  free(task);
}

FACE void* scsi_malloc(scsi_task* task, size_t size) {
  if (task == nullptr) return nullptr;
  constexpr size_t kHeader = offsetof(scsi_allocated_memory, bytes);
  if (size > SIZE_MAX - kHeader) return nullptr;
  auto* const memory =
      static_cast<scsi_allocated_memory*>(calloc(1, kHeader + size));
  if (memory == nullptr) return nullptr;
  memory->next = task->mem;
  task->mem = memory;
  return memory->bytes;
}

FACE void scsi_set_task_private_ptr(scsi_task* task, void* ptr) {
  if (task != nullptr) task->ptr = ptr;
}

FACE void* scsi_get_task_private_ptr(scsi_task* task) {
  return task == nullptr ? nullptr : task->ptr;
}

FACE void scsi_task_set_iov_out(scsi_task* task, iovec* iov, int niov) {
  if (task != nullptr) task->iovector_out = {iov, niov, 0, 0, 0};
}

FACE void scsi_task_set_iov_in(scsi_task* task, iovec* iov, int niov) {
  if (task != nullptr) task->iovector_in = {iov, niov, 0, 0, 0};
}

FACE int scsi_task_add_data_in_buffer(scsi_task* task, int length,
                                      unsigned char* data) {
  if (task == nullptr) return -1;
  return AddBuffer(task, &task->iovector_in, length, data) ? 0 : -1;
}

FACE int scsi_task_add_data_out_buffer(scsi_task* task, int length,
                                       unsigned char* data) {
  if (task == nullptr) return -1;
  return AddBuffer(task, &task->iovector_out, length, data) ? 0 : -1;
}

FACE int scsi_task_get_status(scsi_task* task, scsi_sense* sense) {
  if (task == nullptr) return kError;
  if (sense != nullptr) *sense = task->sense;
  return task->status;
}

}  // namespace skiff::libiscsi
