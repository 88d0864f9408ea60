// SBC-4's commands, as libiscsi sends them.
#include <cstdint>

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/cdb.h"
#include "tools/clients/libiscsi/send.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

// UNMAP's parameter list (SBC-4 section 5.32.2).
scsi_task* MakeUnmap(int anchor, int group, const unmap_list* list, int count) {
  constexpr size_t kHeader = 8;
  constexpr size_t kDescriptor = 16;
  constexpr int kMaxDescriptors = 4095;  // As many as 16 bits can count.
  if (list == nullptr || count < 0 || count > kMaxDescriptors) return nullptr;
  const size_t size = kHeader + kDescriptor * static_cast<size_t>(count);
  scsi_task* const task =
      scsi_cdb_unmap(anchor, group, static_cast<uint16_t>(size));
  auto* const data = static_cast<unsigned char*>(scsi_malloc(task, size));
  auto* const iov = static_cast<iovec*>(scsi_malloc(task, sizeof(iovec)));
  if (data == nullptr || iov == nullptr) {
    scsi_free_scsi_task(task);
    return nullptr;
  }
  StoreBig(static_cast<uint16_t>(size - 2), data);
  StoreBig(static_cast<uint16_t>(size - kHeader), data + 2);
  unsigned char* at = data + kHeader;
  for (int i = 0; i < count; ++i, at += kDescriptor) {
    StoreBig(list[i].lba, at);
    StoreBig(list[i].num, at + 8);
  }
  *iov = {data, size};
  scsi_task_set_iov_out(task, iov, 1);
  return task;
}

}  // namespace

#define SKIFF_FACE_READ(name, lba_type)                                       \
  SKIFF_FACE_COMMAND_IOV(                                                     \
      name,                                                                   \
      (, lba_type lba, uint32_t datalen, int blocksize, int protect, int dpo, \
       int fua, int fua_nv, int group),                                       \
      scsi_cdb_##name(lba, datalen, blocksize, protect, dpo, fua, fua_nv,     \
                      group),                                                 \
      NoData())
#define SKIFF_FACE_WRITE(name, lba_type)                                     \
  SKIFF_FACE_COMMAND_IOV(                                                    \
      name,                                                                  \
      (, lba_type lba, unsigned char* data, uint32_t datalen, int blocksize, \
       int protect, int dpo, int fua, int fua_nv, int group),                \
      scsi_cdb_##name(lba, datalen, blocksize, protect, dpo, fua, fua_nv,    \
                      group),                                                \
      OutData(data, datalen))
#define SKIFF_FACE_SEND_WRITE_VERIFY(name, lba_type)                         \
  SKIFF_FACE_COMMAND_IOV(                                                    \
      name,                                                                  \
      (, lba_type lba, unsigned char* data, uint32_t datalen, int blocksize, \
       int protect, int dpo, int bytchk, int group),                         \
      scsi_cdb_##name(lba, datalen, blocksize, protect, dpo, bytchk, group), \
      OutData(data, datalen))
#define SKIFF_FACE_SEND_VERIFY(name, lba_type)                             \
  SKIFF_FACE_COMMAND(                                                      \
      name,                                                                \
      (, unsigned char* data, uint32_t datalen, lba_type lba, int protect, \
       int dpo, int bytchk, int blocksize),                                \
      scsi_cdb_##name(lba, datalen, protect, dpo, bytchk, blocksize),      \
      OutData(data, datalen))
#define SKIFF_FACE_WRITE_SAME(name, lba_type, count_type)                      \
  SKIFF_FACE_COMMAND_IOV(name,                                                 \
                         (, lba_type lba, unsigned char* data,                 \
                          uint32_t datalen, count_type num_blocks, int anchor, \
                          int unmap, int wrprotect, int group),                \
                         scsi_cdb_##name(wrprotect, anchor, unmap, lba, group, \
                                         num_blocks, datalen),                 \
                         OutData(data, datalen))

SKIFF_FACE_COMMAND_IOV(read6, (, uint32_t lba, uint32_t datalen, int blocksize),
                       scsi_cdb_read6(lba, datalen, blocksize), NoData())
SKIFF_FACE_READ(read10, uint32_t)
SKIFF_FACE_READ(read12, uint32_t)
SKIFF_FACE_READ(read16, uint64_t)
SKIFF_FACE_WRITE(write10, uint32_t)
SKIFF_FACE_WRITE(write12, uint32_t)
SKIFF_FACE_WRITE(write16, uint64_t)
SKIFF_FACE_WRITE(orwrite, uint64_t)
SKIFF_FACE_WRITE(compareandwrite, uint64_t)
SKIFF_FACE_SEND_WRITE_VERIFY(writeverify10, uint32_t)
SKIFF_FACE_SEND_WRITE_VERIFY(writeverify12, uint32_t)
SKIFF_FACE_SEND_WRITE_VERIFY(writeverify16, uint64_t)
SKIFF_FACE_SEND_VERIFY(verify10, uint32_t)
SKIFF_FACE_SEND_VERIFY(verify12, uint32_t)
SKIFF_FACE_SEND_VERIFY(verify16, uint64_t)
SKIFF_FACE_WRITE_SAME(writesame10, uint32_t, uint16_t)
SKIFF_FACE_WRITE_SAME(writesame16, uint64_t, uint32_t)

SKIFF_FACE_COMMAND_IOV(writeatomic16,
                       (, uint64_t lba, unsigned char* data, uint32_t datalen,
                        int blocksize, int wrprotect, int dpo, int fua,
                        int group),
                       scsi_cdb_writeatomic16(lba, datalen, blocksize,
                                              wrprotect, dpo, fua, group),
                       OutData(data, datalen))
SKIFF_FACE_COMMAND(readcapacity10, (, int lba, int pmi),
                   scsi_cdb_readcapacity10(lba, pmi), NoData())
SKIFF_FACE_COMMAND(readcapacity16, (), scsi_cdb_readcapacity16(), NoData())
SKIFF_FACE_COMMAND(get_lba_status,
                   (, uint64_t starting_lba, uint32_t alloc_len),
                   scsi_cdb_get_lba_status(starting_lba, alloc_len), NoData())
SKIFF_FACE_COMMAND(synchronizecache10,
                   (, int lba, int num_blocks, int syncnv, int immed),
                   scsi_cdb_synchronizecache10(lba, num_blocks, syncnv, immed),
                   NoData())
SKIFF_FACE_COMMAND(synchronizecache16,
                   (, uint64_t lba, uint32_t num_blocks, int syncnv, int immed),
                   scsi_cdb_synchronizecache16(lba, num_blocks, syncnv, immed),
                   NoData())
SKIFF_FACE_COMMAND(prefetch10,
                   (, uint32_t lba, int num_blocks, int immed, int group),
                   scsi_cdb_prefetch10(lba, num_blocks, immed, group), NoData())
SKIFF_FACE_COMMAND(prefetch16,
                   (, uint64_t lba, int num_blocks, int immed, int group),
                   scsi_cdb_prefetch16(lba, num_blocks, immed, group), NoData())
SKIFF_FACE_COMMAND(unmap,
                   (, int anchor, int group, unmap_list* list, int list_len),
                   MakeUnmap(anchor, group, list, list_len), NoData())
SKIFF_FACE_COMMAND(readdefectdata10,
                   (, int req_plist, int req_glist, int format,
                    uint16_t alloc_len),
                   scsi_cdb_readdefectdata10(req_plist, req_glist, format,
                                             alloc_len),
                   NoData())
SKIFF_FACE_COMMAND(readdefectdata12,
                   (, int req_plist, int req_glist, int format,
                    uint32_t descriptor_index, uint32_t alloc_len),
                   scsi_cdb_readdefectdata12(req_plist, req_glist, format,
                                             descriptor_index, alloc_len),
                   NoData())
SKIFF_FACE_COMMAND(sanitize,
                   (, int immed, int ause, int sa, int param_len,
                    iscsi_data* data),
                   scsi_cdb_sanitize(immed, ause, sa, param_len),
                   (data == nullptr ? NoData() : *data))
SKIFF_FACE_COMMAND(sanitize_block_erase, (, int immed, int ause),
                   scsi_cdb_sanitize(immed, ause, 0x02, 0), NoData())
SKIFF_FACE_COMMAND(sanitize_crypto_erase, (, int immed, int ause),
                   scsi_cdb_sanitize(immed, ause, 0x03, 0), NoData())
SKIFF_FACE_COMMAND(sanitize_exit_failure_mode, (, int immed, int ause),
                   scsi_cdb_sanitize(immed, ause, 0x1f, 0), NoData())
SKIFF_FACE_COMMAND(
    startstopunit,
    (, int immed, int pcm, int pc, int no_flush, int loej, int start),
    scsi_cdb_startstopunit(immed, pcm, pc, no_flush, loej, start), NoData())

}  // namespace skiff::libiscsi
