// CDBs of SBC-4's commands.
#include <cstdint>

#include "tools/clients/libiscsi/cdb.h"
#include "tools/clients/libiscsi/cdb_builder.h"

namespace skiff::libiscsi {
namespace {

// Where the fields of CDBs of 10, 12 and 16 bytes are.
struct Form {
  int size;
  size_t length;
  int length_bytes;
  size_t group;
};
constexpr Form kForm10 = {10, 7, 2, 6};
constexpr Form kForm12 = {12, 6, 4, 10};
constexpr Form kForm16 = {16, 10, 4, 14};

// What programs say of a transfer.
struct Transfer {
  uint64_t lba;
  uint32_t blocks;
  int protect;
  int dpo;
  int group;
};

// False: there are no blocks of this size.
bool ToBlocks(uint32_t bytes, int block_size, uint32_t* blocks) {
  if (block_size <= 0) return false;
  *blocks = bytes / static_cast<uint32_t>(block_size);
  return true;
}

Cdb MakeCdb(const Form& form, int operation_code, const Transfer& transfer) {
  Cdb cdb(form.size, operation_code);
  cdb.Bits(1, 5, 7, transfer.protect)
      .Bit(1, 4, transfer.dpo)
      .Bits(form.group, 0, 0x1f, transfer.group);
  if (form.size == 16) {
    cdb.Set(2, transfer.lba);
  } else {
    cdb.Set(2, static_cast<uint32_t>(transfer.lba));
  }
  if (form.length_bytes == 2) {
    cdb.Fit<uint16_t>(form.length, transfer.blocks);
  } else {
    cdb.Set(form.length, transfer.blocks);
  }
  return cdb;
}

}  // namespace

#define SKIFF_FACE_DEFINE_TRANSFER(name, lba_type, form, code, direction) \
  SKIFF_FACE_TRANSFER(name, lba_type) {                                   \
    uint32_t blocks = 0;                                                  \
    if (!ToBlocks(xferlen, blocksize, &blocks)) return nullptr;           \
    return MakeCdb(form, code, {lba, blocks, protect, dpo, group_number}) \
        .Bit(1, 3, fua)                                                   \
        .Bit(1, 1, fua_nv)                                                \
        .direction(static_cast<int>(xferlen));                            \
  }
#define SKIFF_FACE_DEFINE_WRITE_VERIFY(name, lba_type, form, code)        \
  SKIFF_FACE_WRITE_VERIFY(name, lba_type) {                               \
    uint32_t blocks = 0;                                                  \
    if (!ToBlocks(xferlen, blocksize, &blocks)) return nullptr;           \
    return MakeCdb(form, code, {lba, blocks, protect, dpo, group_number}) \
        .Bit(1, 1, bytchk)                                                \
        .Out(static_cast<int>(xferlen));                                  \
  }
// Without BYTCHK the device compares nothing, and gets nothing.
#define SKIFF_FACE_DEFINE_VERIFY(name, lba_type, form, code)    \
  SKIFF_FACE_VERIFY(name, lba_type) {                           \
    uint32_t blocks = 0;                                        \
    if (!ToBlocks(xferlen, blocksize, &blocks)) return nullptr; \
    return MakeCdb(form, code, {lba, blocks, protect, dpo, 0})  \
        .Bit(1, 1, bytchk)                                      \
        .Out(bytchk != 0 ? static_cast<int>(xferlen) : 0);      \
  }

SKIFF_FACE_DEFINE_TRANSFER(read10, uint32_t, kForm10, 0x28, In)
SKIFF_FACE_DEFINE_TRANSFER(read12, uint32_t, kForm12, 0xa8, In)
SKIFF_FACE_DEFINE_TRANSFER(read16, uint64_t, kForm16, 0x88, In)
SKIFF_FACE_DEFINE_TRANSFER(write10, uint32_t, kForm10, 0x2a, Out)
SKIFF_FACE_DEFINE_TRANSFER(write12, uint32_t, kForm12, 0xaa, Out)
SKIFF_FACE_DEFINE_TRANSFER(write16, uint64_t, kForm16, 0x8a, Out)
SKIFF_FACE_DEFINE_TRANSFER(orwrite, uint64_t, kForm16, 0x8b, Out)
SKIFF_FACE_DEFINE_WRITE_VERIFY(writeverify10, uint32_t, kForm10, 0x2e)
SKIFF_FACE_DEFINE_WRITE_VERIFY(writeverify12, uint32_t, kForm12, 0xae)
SKIFF_FACE_DEFINE_WRITE_VERIFY(writeverify16, uint64_t, kForm16, 0x8e)
SKIFF_FACE_DEFINE_VERIFY(verify10, uint32_t, kForm10, 0x2f)
SKIFF_FACE_DEFINE_VERIFY(verify12, uint32_t, kForm12, 0xaf)
SKIFF_FACE_DEFINE_VERIFY(verify16, uint64_t, kForm16, 0x8f)

// `xferlen` has what is expected and what is to be written; the CDB counts one
// of them, in a byte.
SKIFF_FACE_TRANSFER(compareandwrite, uint64_t) {
  uint32_t blocks = 0;
  if (!ToBlocks(xferlen, blocksize, &blocks)) return nullptr;
  return Cdb(16, 0x89)
      .Bits(1, 5, 7, protect)
      .Bit(1, 4, dpo)
      .Bit(1, 3, fua)
      .Bit(1, 1, fua_nv)
      .Set(2, lba)
      .Fit<uint8_t>(13, blocks / 2)
      .Bits(14, 0, 0x1f, group_number)
      .Out(static_cast<int>(xferlen));
}

FACE scsi_task* scsi_cdb_writeatomic16(uint64_t lba, uint32_t xferlen,
                                       int blocksize, int wrprotect, int dpo,
                                       int fua, int group_number) {
  uint32_t blocks = 0;
  if (!ToBlocks(xferlen, blocksize, &blocks)) return nullptr;
  return Cdb(16, 0x9c)
      .Bits(1, 5, 7, wrprotect)
      .Bit(1, 4, dpo)
      .Bit(1, 3, fua)
      .Set(2, lba)
      .Fit<uint16_t>(12, blocks)
      .Bits(14, 0, 0x1f, group_number)
      .Out(static_cast<int>(xferlen));
}

FACE scsi_task* scsi_cdb_read6(uint32_t lba, uint32_t xferlen, int blocksize) {
  constexpr uint32_t kMaxLba = 0x1fffff;
  uint32_t blocks = 0;
  if (!ToBlocks(xferlen, blocksize, &blocks)) return nullptr;
  // A length of 0 means 256 blocks.
  if (blocks > 256 || lba > kMaxLba) return nullptr;
  return Cdb(6, 0x08)
      .Bits(1, 0, 0x1f, static_cast<int>(lba >> 16))
      .Set(2, static_cast<uint16_t>(lba))
      .Byte(4, static_cast<int>(blocks))
      .In(static_cast<int>(xferlen));
}

FACE scsi_task* scsi_cdb_writesame10(int wrprotect, int anchor, int unmap,
                                     uint32_t lba, int group,
                                     uint16_t num_blocks, uint32_t datalen) {
  return Cdb(10, 0x41)
      .Bits(1, 5, 7, wrprotect)
      .Bit(1, 4, anchor)
      .Bit(1, 3, unmap)
      .Set(2, lba)
      .Bits(6, 0, 0x1f, group)
      .Set(7, num_blocks)
      .Out(static_cast<int>(datalen));
}

// Without data, NDOB says so.
FACE scsi_task* scsi_cdb_writesame16(int wrprotect, int anchor, int unmap,
                                     uint64_t lba, int group,
                                     uint32_t num_blocks, uint32_t datalen) {
  return Cdb(16, 0x93)
      .Bits(1, 5, 7, wrprotect)
      .Bit(1, 4, anchor)
      .Bit(1, 3, unmap)
      .Bit(1, 0, datalen == 0 ? 1 : 0)
      .Set(2, lba)
      .Set(10, num_blocks)
      .Bits(14, 0, 0x1f, group)
      .Out(static_cast<int>(datalen));
}

FACE scsi_task* scsi_cdb_unmap(int anchor, int group, uint16_t xferlen) {
  return Cdb(10, 0x42)
      .Bit(1, 0, anchor)
      .Bits(6, 0, 0x1f, group)
      .Set(7, xferlen)
      .Out(xferlen);
}

FACE scsi_task* scsi_cdb_readcapacity10(int lba, int pmi) {
  constexpr int kAnswerBytes = 8;
  return Cdb(10, 0x25)
      .Set(2, static_cast<uint32_t>(lba))
      .Bit(8, 0, pmi)
      .In(kAnswerBytes);
}

FACE scsi_task* scsi_cdb_serviceactionin16(int sa, uint32_t xferlen) {
  return Cdb(16, 0x9e)
      .Byte(1, sa)
      .Set(10, xferlen)
      .In(static_cast<int>(xferlen));
}

FACE scsi_task* scsi_cdb_readcapacity16() {
  constexpr uint32_t kAnswerBytes = 32;
  return scsi_cdb_serviceactionin16(0x10, kAnswerBytes);
}

FACE scsi_task* scsi_cdb_get_lba_status(uint64_t starting_lba,
                                        uint32_t alloc_len) {
  return Cdb(16, 0x9e)
      .Byte(1, 0x12)
      .Set(2, starting_lba)
      .Set(10, alloc_len)
      .In(static_cast<int>(alloc_len));
}

FACE scsi_task* scsi_cdb_synchronizecache10(int lba, int num_blocks, int syncnv,
                                            int immed) {
  return Cdb(10, 0x35)
      .Bit(1, 2, syncnv)
      .Bit(1, 1, immed)
      .Set(2, static_cast<uint32_t>(lba))
      .Fit<uint16_t>(7, num_blocks)
      .NoData();
}

FACE scsi_task* scsi_cdb_synchronizecache16(uint64_t lba, uint32_t num_blocks,
                                            int syncnv, int immed) {
  return Cdb(16, 0x91)
      .Bit(1, 2, syncnv)
      .Bit(1, 1, immed)
      .Set(2, lba)
      .Set(10, num_blocks)
      .NoData();
}

FACE scsi_task* scsi_cdb_prefetch10(uint32_t lba, int num_blocks, int immed,
                                    int group) {
  return Cdb(10, 0x34)
      .Bit(1, 1, immed)
      .Set(2, lba)
      .Bits(6, 0, 0x1f, group)
      .Fit<uint16_t>(7, num_blocks)
      .NoData();
}

FACE scsi_task* scsi_cdb_prefetch16(uint64_t lba, int num_blocks, int immed,
                                    int group) {
  return Cdb(16, 0x90)
      .Bit(1, 1, immed)
      .Set(2, lba)
      .Fit<uint32_t>(10, num_blocks)
      .Bits(14, 0, 0x1f, group)
      .NoData();
}

FACE scsi_task* scsi_cdb_readdefectdata10(int req_plist, int req_glist,
                                          int defect_list_format,
                                          uint16_t alloc_len) {
  return Cdb(10, 0x37)
      .Bit(2, 4, req_plist)
      .Bit(2, 3, req_glist)
      .Bits(2, 0, 7, defect_list_format)
      .Set(7, alloc_len)
      .In(alloc_len);
}

FACE scsi_task* scsi_cdb_readdefectdata12(int req_plist, int req_glist,
                                          int defect_list_format,
                                          uint32_t address_descriptor_index,
                                          uint32_t alloc_len) {
  return Cdb(12, 0xb7)
      .Bit(1, 4, req_plist)
      .Bit(1, 3, req_glist)
      .Bits(1, 0, 7, defect_list_format)
      .Set(2, address_descriptor_index)
      .Set(6, alloc_len)
      .In(static_cast<int>(alloc_len));
}

FACE scsi_task* scsi_cdb_sanitize(int immed, int ause, int sa, int param_len) {
  return Cdb(10, 0x48)
      .Bit(1, 7, immed)
      .Bit(1, 5, ause)
      .Bits(1, 0, 0x1f, sa)
      .Fit<uint16_t>(7, param_len)
      .Out(param_len);
}

FACE scsi_task* scsi_cdb_startstopunit(int immed, int pcm, int pc, int no_flush,
                                       int loej, int start) {
  return Cdb(6, 0x1b)
      .Bit(1, 0, immed)
      .Bits(3, 0, 0x0f, pcm)
      .Bits(4, 4, 0x0f, pc)
      .Bit(4, 2, no_flush)
      .Bit(4, 1, loej)
      .Bit(4, 0, start)
      .NoData();
}

}  // namespace skiff::libiscsi
