// SPC-4's commands, as libiscsi sends them.
#include <cstdint>

#include "tools/clients/libiscsi/cdb.h"
#include "tools/clients/libiscsi/mode.h"
#include "tools/clients/libiscsi/send.h"
#include "tools/clients/libiscsi/task.h"

namespace skiff::libiscsi {
namespace {

constexpr int kModeSelect6 = 6;
constexpr int kModeSelect10 = 10;

// MODE SELECT with one page.
scsi_task* MakeModeSelect(int pf, int sp, scsi_mode_page* page, int size) {
  if (page == nullptr) return nullptr;
  const bool six = size == kModeSelect6;
  scsi_task* const task =
      six ? scsi_cdb_modeselect6(pf, sp, 0) : scsi_cdb_modeselect10(pf, sp, 0);
  const scsi_data* const data =
      scsi_modesense_dataout_marshall(task, page, six ? 1 : 0);
  auto* const iov = static_cast<iovec*>(scsi_malloc(task, sizeof(iovec)));
  if (data == nullptr || iov == nullptr) {
    scsi_free_scsi_task(task);
    return nullptr;
  }
  *iov = {data->data, static_cast<size_t>(data->size)};
  scsi_task_set_iov_out(task, iov, 1);
  task->cdb[six ? 4 : 8] = static_cast<unsigned char>(data->size);
  task->xfer_dir = kTransferOut;
  task->expxferlen = data->size;
  return task;
}

}  // namespace

SKIFF_FACE_COMMAND(testunitready, (), scsi_cdb_testunitready(), NoData())
SKIFF_FACE_COMMAND(inquiry, (, int evpd, int page_code, int maxsize),
                   scsi_cdb_inquiry(evpd, page_code, maxsize), NoData())
SKIFF_FACE_COMMAND(modesense6,
                   (, int dbd, int pc, int page_code, int sub_page_code,
                    unsigned char alloc_len),
                   scsi_cdb_modesense6(dbd, pc, page_code, sub_page_code,
                                       alloc_len),
                   NoData())
SKIFF_FACE_COMMAND(modesense10,
                   (, int llbaa, int dbd, int pc, int page_code,
                    int sub_page_code, unsigned char alloc_len),
                   scsi_cdb_modesense10(llbaa, dbd, pc, page_code,
                                        sub_page_code, alloc_len),
                   NoData())
SKIFF_FACE_COMMAND(modeselect6, (, int pf, int sp, scsi_mode_page* page),
                   MakeModeSelect(pf, sp, page, kModeSelect6), NoData())
SKIFF_FACE_COMMAND(modeselect10, (, int pf, int sp, scsi_mode_page* page),
                   MakeModeSelect(pf, sp, page, kModeSelect10), NoData())
SKIFF_FACE_COMMAND(preventallow, (, int prevent),
                   scsi_cdb_preventallow(prevent), NoData())
SKIFF_FACE_COMMAND(readtoc,
                   (, int msf, int format, int track_session, int maxsize),
                   scsi_cdb_readtoc(msf, format, track_session,
                                    static_cast<uint16_t>(maxsize)),
                   NoData())
SKIFF_FACE_COMMAND(reserve6, (), scsi_cdb_reserve6(), NoData())
SKIFF_FACE_COMMAND(release6, (), scsi_cdb_release6(), NoData())
SKIFF_FACE_COMMAND(persistent_reserve_in, (, int sa, uint16_t xferlen),
                   scsi_cdb_persistent_reserve_in(sa, xferlen), NoData())
SKIFF_FACE_COMMAND(persistent_reserve_out,
                   (, int sa, int scope, int type, void* params),
                   scsi_cdb_persistent_reserve_out(sa, scope, type, params),
                   NoData())
SKIFF_FACE_COMMAND(report_supported_opcodes,
                   (, int rctd, int options, int opcode, int sa,
                    uint32_t alloc_len),
                   scsi_cdb_report_supported_opcodes(rctd, options, opcode, sa,
                                                     alloc_len),
                   NoData())
SKIFF_FACE_COMMAND(receive_copy_results, (, int sa, int list_id, int alloc_len),
                   scsi_cdb_receive_copy_results(sa, list_id, alloc_len),
                   NoData())
SKIFF_FACE_COMMAND(extended_copy, (, iscsi_data* data),
                   (data == nullptr
                        ? nullptr
                        : scsi_cdb_extended_copy(static_cast<int>(data->size))),
                   (data == nullptr ? NoData() : *data))

// It has no LUN among its arguments: 0 is asked.
FACE scsi_task* iscsi_reportluns_task(iscsi_context* iscsi, int report_type,
                                      int alloc_len, iscsi_command_cb cb,
                                      void* private_data) {
  return Send(iscsi, 0, scsi_reportluns_cdb(report_type, alloc_len), {}, cb,
              private_data);
}

FACE scsi_task* iscsi_reportluns_sync(iscsi_context* iscsi, int report_type,
                                      int alloc_len) {
  return SendAndWait(iscsi, 0, scsi_reportluns_cdb(report_type, alloc_len), {});
}

}  // namespace skiff::libiscsi
