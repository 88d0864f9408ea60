// CDBs of SPC-4's commands, and of MMC's one.
#include <cstdint>

#include "tools/clients/libiscsi/bytes.h"
#include "tools/clients/libiscsi/cdb.h"
#include "tools/clients/libiscsi/cdb_builder.h"

namespace skiff::libiscsi {
namespace {

constexpr int kRegisterAndMove = 7;

}  // namespace

FACE scsi_task* scsi_cdb_testunitready() { return Cdb(6, 0x00).NoData(); }

FACE scsi_task* scsi_cdb_inquiry(int evpd, int page_code, int alloc_len) {
  return Cdb(6, 0x12)
      .Bit(1, 0, evpd)
      .Byte(2, page_code)
      .Fit<uint16_t>(3, alloc_len)
      .In(alloc_len);
}

FACE scsi_task* scsi_reportluns_cdb(int report_type, int alloc_len) {
  return Cdb(12, 0xa0)
      .Byte(2, report_type)
      .Set(6, static_cast<uint32_t>(alloc_len))
      .In(alloc_len);
}

FACE scsi_task* scsi_cdb_modesense6(int dbd, int pc, int page_code,
                                    int sub_page_code,
                                    unsigned char alloc_len) {
  return Cdb(6, 0x1a)
      .Bit(1, 3, dbd)
      .Bits(2, 6, 3, pc)
      .Bits(2, 0, 0x3f, page_code)
      .Byte(3, sub_page_code)
      .Byte(4, alloc_len)
      .In(alloc_len);
}

FACE scsi_task* scsi_cdb_modesense10(int llbaa, int dbd, int pc, int page_code,
                                     int sub_page_code,
                                     unsigned char alloc_len) {
  return Cdb(10, 0x5a)
      .Bit(1, 4, llbaa)
      .Bit(1, 3, dbd)
      .Bits(2, 6, 3, pc)
      .Bits(2, 0, 0x3f, page_code)
      .Byte(3, sub_page_code)
      .Set(7, static_cast<uint16_t>(alloc_len))
      .In(alloc_len);
}

FACE scsi_task* scsi_cdb_modeselect6(int pf, int sp, int param_len) {
  return Cdb(6, 0x15)
      .Bit(1, 4, pf)
      .Bit(1, 0, sp)
      .Fit<uint8_t>(4, param_len)
      .Out(param_len);
}

FACE scsi_task* scsi_cdb_modeselect10(int pf, int sp, int param_len) {
  return Cdb(10, 0x55)
      .Bit(1, 4, pf)
      .Bit(1, 0, sp)
      .Fit<uint16_t>(7, param_len)
      .Out(param_len);
}

FACE scsi_task* scsi_cdb_reserve6() { return Cdb(6, 0x16).NoData(); }

FACE scsi_task* scsi_cdb_release6() { return Cdb(6, 0x17).NoData(); }

FACE scsi_task* scsi_cdb_preventallow(int prevent) {
  return Cdb(6, 0x1e).Bits(4, 0, 3, prevent).NoData();
}

FACE scsi_task* scsi_cdb_readtoc(int msf, int format, int track_session,
                                 uint16_t alloc_len) {
  return Cdb(10, 0x43)
      .Bit(1, 1, msf)
      .Bits(2, 0, 0x0f, format)
      .Byte(6, track_session)
      .Set(7, alloc_len)
      .In(alloc_len);
}

FACE scsi_task* scsi_cdb_persistent_reserve_in(int sa, uint16_t xferlen) {
  return Cdb(10, 0x5e).Bits(1, 0, 0x1f, sa).Set(7, xferlen).In(xferlen);
}

// The basic parameter list (SPC-4 section 6.16.3).
FACE scsi_task* scsi_cdb_persistent_reserve_out(int sa, int scope, int type,
                                                void* params) {
  constexpr uint32_t kListBytes = 24;
  if (params == nullptr || sa < 0 || sa >= kRegisterAndMove) return nullptr;
  scsi_task* const task = Cdb(10, 0x5f)
                              .Bits(1, 0, 0x1f, sa)
                              .Bits(2, 4, 0x0f, scope)
                              .Bits(2, 0, 0x0f, type)
                              .Set(5, kListBytes)
                              .Out(kListBytes);
  auto* const list = static_cast<unsigned char*>(scsi_malloc(task, kListBytes));
  auto* const iov = static_cast<iovec*>(scsi_malloc(task, sizeof(iovec)));
  if (list == nullptr || iov == nullptr) {
    scsi_free_scsi_task(task);
    return nullptr;
  }
  const auto* const basic =
      static_cast<const scsi_persistent_reserve_out_basic*>(params);
  StoreBig(basic->reservation_key, list);
  StoreBig(basic->service_action_reservation_key, list + 8);
  list[20] = static_cast<unsigned char>((basic->spec_i_pt != 0 ? 0x08 : 0) |
                                        (basic->all_tg_pt != 0 ? 0x04 : 0) |
                                        (basic->aptpl != 0 ? 0x01 : 0));
  *iov = {list, kListBytes};
  scsi_task_set_iov_out(task, iov, 1);
  return task;
}

FACE scsi_task* scsi_cdb_report_supported_opcodes(int rctd, int options,
                                                  int opcode, int sa,
                                                  uint32_t alloc_len) {
  return Cdb(12, 0xa3)
      .Byte(1, 0x0c)
      .Bit(2, 7, rctd)
      .Bits(2, 0, 7, options)
      .Byte(3, opcode)
      .Fit<uint16_t>(4, sa)
      .Set(6, alloc_len)
      .In(static_cast<int>(alloc_len));
}

FACE scsi_task* scsi_cdb_extended_copy(int param_len) {
  return Cdb(16, 0x83).Set(10, static_cast<uint32_t>(param_len)).Out(param_len);
}

FACE scsi_task* scsi_cdb_receive_copy_results(int sa, int list_id,
                                              int xferlen) {
  return Cdb(16, 0x84)
      .Bits(1, 0, 0x1f, sa)
      .Byte(2, list_id)
      .Set(10, static_cast<uint32_t>(xferlen))
      .In(xferlen);
}

}  // namespace skiff::libiscsi
