// CDBs in libiscsi's structs.
#include <cstdint>

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

uint8_t Bit(const Answer& cdb, size_t offset, int bit) {
  return static_cast<uint8_t>(cdb.Bit(offset, bit));
}

uint8_t Group(const Answer& cdb, size_t offset) {
  return static_cast<uint8_t>(cdb.Bits(offset, 0, 0x1f));
}

// The three bits that all transfers begin their second byte with.
uint8_t Protect(const Answer& cdb) {
  return static_cast<uint8_t>(cdb.Bits(1, 5, 7));
}

uint8_t ByteCheck(const Answer& cdb) {
  return static_cast<uint8_t>(cdb.Bits(1, 1, 1));
}

template <typename T>
T* New(scsi_task* task, const T& value) {
  auto* const made = static_cast<T*>(scsi_malloc(task, sizeof(T)));
  if (made != nullptr) *made = value;
  return made;
}

void* Transfer10(scsi_task* task, const Answer& cdb) {
  return New<scsi_transfer10_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), Bit(cdb, 1, 3),
             Bit(cdb, 1, 1), cdb.Get<uint32_t>(2), Group(cdb, 6),
             cdb.Get<uint16_t>(7), cdb.Byte(9)});
}

void* Read6(scsi_task* task, const Answer& cdb) {
  const uint32_t lba = cdb.Get<uint32_t>(0) & 0x1fffff;
  return New<scsi_read6_cdb>(
      task, {cdb.Byte(0), lba,
             static_cast<uint16_t>(cdb.Byte(4) != 0 ? cdb.Byte(4) : 256),
             cdb.Byte(5)});
}

void* Read12(scsi_task* task, const Answer& cdb) {
  return New<scsi_read12_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), Bit(cdb, 1, 3),
             Bit(cdb, 1, 2), Bit(cdb, 1, 1), cdb.Get<uint32_t>(2),
             cdb.Get<uint32_t>(6), Group(cdb, 10), cdb.Byte(11)});
}

void* Read16(scsi_task* task, const Answer& cdb) {
  return New<scsi_read16_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), Bit(cdb, 1, 3),
             Bit(cdb, 1, 2), Bit(cdb, 1, 1), cdb.Get<uint64_t>(2),
             cdb.Get<uint32_t>(10), Group(cdb, 14), cdb.Byte(15)});
}

void* Write12(scsi_task* task, const Answer& cdb) {
  return New<scsi_write12_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), Bit(cdb, 1, 3),
             Bit(cdb, 1, 1), cdb.Get<uint32_t>(2), cdb.Get<uint32_t>(6),
             Group(cdb, 10), cdb.Byte(11)});
}

void* Write16(scsi_task* task, const Answer& cdb) {
  return New<scsi_write16_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), Bit(cdb, 1, 3),
             Bit(cdb, 1, 1), static_cast<uint32_t>(cdb.Get<uint64_t>(2)),
             cdb.Get<uint32_t>(10), Group(cdb, 14), cdb.Byte(15)});
}

void* WriteAtomic16(scsi_task* task, const Answer& cdb) {
  return New<scsi_writeatomic16_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), Bit(cdb, 1, 3),
             static_cast<uint32_t>(cdb.Get<uint64_t>(2)), cdb.Get<uint16_t>(12),
             Group(cdb, 14), cdb.Byte(15)});
}

void* Verify10(scsi_task* task, const Answer& cdb) {
  return New<scsi_verify10_cdb>(
      task,
      {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), ByteCheck(cdb),
       cdb.Get<uint32_t>(2), Group(cdb, 6), cdb.Get<uint16_t>(7), cdb.Byte(9)});
}

void* Verify12(scsi_task* task, const Answer& cdb) {
  return New<scsi_verify12_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), ByteCheck(cdb),
             cdb.Get<uint32_t>(2), cdb.Get<uint32_t>(6), Group(cdb, 10),
             cdb.Byte(11)});
}

void* Verify16(scsi_task* task, const Answer& cdb) {
  return New<scsi_verify16_cdb>(
      task, {cdb.Byte(0), Protect(cdb), Bit(cdb, 1, 4), ByteCheck(cdb),
             cdb.Get<uint64_t>(2), cdb.Get<uint32_t>(10), Group(cdb, 14),
             cdb.Byte(15)});
}

}  // namespace

// Null for a task of another operation code, and for those without a struct.
FACE void* scsi_cdb_unmarshall(scsi_task* task, int opcode) {
  if (task == nullptr || task->cdb[0] != opcode) return nullptr;
  const Answer cdb(task->cdb, kMaxCdb);
  switch (opcode) {
    case 0x08:
      return Read6(task, cdb);
    case 0x28:
    case 0x2a:
      return Transfer10(task, cdb);
    case 0x2f:
      return Verify10(task, cdb);
    case 0xa8:
      return Read12(task, cdb);
    case 0xaa:
      return Write12(task, cdb);
    case 0xaf:
      return Verify12(task, cdb);
    case 0x88:
      return Read16(task, cdb);
    case 0x8a:
      return Write16(task, cdb);
    case 0x8f:
      return Verify16(task, cdb);
    case 0x9c:
      return WriteAtomic16(task, cdb);
    default:
      return nullptr;
  }
}

FACE uint64_t scsi_get_uint64(const unsigned char* from) {
  return LoadBig<uint64_t>(from);
}
FACE uint32_t scsi_get_uint32(const unsigned char* from) {
  return LoadBig<uint32_t>(from);
}
FACE uint16_t scsi_get_uint16(const unsigned char* from) {
  return LoadBig<uint16_t>(from);
}
FACE void scsi_set_uint64(unsigned char* to, uint64_t value) {
  StoreBig(value, to);
}
FACE void scsi_set_uint32(unsigned char* to, uint32_t value) {
  StoreBig(value, to);
}
FACE void scsi_set_uint16(unsigned char* to, uint16_t value) {
  StoreBig(value, to);
}

}  // namespace skiff::libiscsi
