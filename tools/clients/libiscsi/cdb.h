#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_CDB_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_CDB_H_

#include <cstdint>

#include "tools/clients/libiscsi/export.h"
#include "tools/clients/libiscsi/types.h"

// Tasks for commands of SPC and SBC. Null where the numbers do not fit into the
// CDB, or without memory. Lengths are in bytes, unless they count blocks.
namespace skiff::libiscsi {

FACE scsi_task* scsi_cdb_testunitready();
FACE scsi_task* scsi_cdb_inquiry(int evpd, int page_code, int alloc_len);
FACE scsi_task* scsi_cdb_readcapacity10(int lba, int pmi);
FACE scsi_task* scsi_cdb_readcapacity16();
FACE scsi_task* scsi_reportluns_cdb(int report_type, int alloc_len);
FACE scsi_task* scsi_cdb_modesense6(int dbd, int pc, int page_code,
                                    int sub_page_code, unsigned char alloc_len);
FACE scsi_task* scsi_cdb_modesense10(int llbaa, int dbd, int pc, int page_code,
                                     int sub_page_code,
                                     unsigned char alloc_len);
FACE scsi_task* scsi_cdb_modeselect6(int pf, int sp, int param_len);
FACE scsi_task* scsi_cdb_modeselect10(int pf, int sp, int param_len);
FACE scsi_task* scsi_cdb_get_lba_status(uint64_t starting_lba,
                                        uint32_t alloc_len);
FACE scsi_task* scsi_cdb_synchronizecache10(int lba, int num_blocks, int syncnv,
                                            int immed);
FACE scsi_task* scsi_cdb_synchronizecache16(uint64_t lba, uint32_t num_blocks,
                                            int syncnv, int immed);
FACE scsi_task* scsi_cdb_prefetch10(uint32_t lba, int num_blocks, int immed,
                                    int group);
FACE scsi_task* scsi_cdb_prefetch16(uint64_t lba, int num_blocks, int immed,
                                    int group);
FACE scsi_task* scsi_cdb_unmap(int anchor, int group, uint16_t xferlen);
FACE scsi_task* scsi_cdb_read6(uint32_t lba, uint32_t xferlen, int blocksize);

// What reads and writes have in common, as in libiscsi's arguments.
// NOLINTBEGIN(bugprone-macro-parentheses): parameters of functions.
#define SKIFF_FACE_TRANSFER(name, lba_type)                            \
  FACE scsi_task* scsi_cdb_##name(lba_type lba, uint32_t xferlen,      \
                                  int blocksize, int protect, int dpo, \
                                  int fua, int fua_nv, int group_number)
#define SKIFF_FACE_WRITE_VERIFY(name, lba_type)                        \
  FACE scsi_task* scsi_cdb_##name(lba_type lba, uint32_t xferlen,      \
                                  int blocksize, int protect, int dpo, \
                                  int bytchk, int group_number)
#define SKIFF_FACE_VERIFY(name, lba_type)                                      \
  FACE scsi_task* scsi_cdb_##name(lba_type lba, uint32_t xferlen, int protect, \
                                  int dpo, int bytchk, int blocksize)
// NOLINTEND(bugprone-macro-parentheses)

SKIFF_FACE_TRANSFER(read10, uint32_t);
SKIFF_FACE_TRANSFER(read12, uint32_t);
SKIFF_FACE_TRANSFER(read16, uint64_t);
SKIFF_FACE_TRANSFER(write10, uint32_t);
SKIFF_FACE_TRANSFER(write12, uint32_t);
SKIFF_FACE_TRANSFER(write16, uint64_t);
SKIFF_FACE_TRANSFER(orwrite, uint64_t);
SKIFF_FACE_TRANSFER(compareandwrite, uint64_t);
SKIFF_FACE_WRITE_VERIFY(writeverify10, uint32_t);
SKIFF_FACE_WRITE_VERIFY(writeverify12, uint32_t);
SKIFF_FACE_WRITE_VERIFY(writeverify16, uint64_t);
SKIFF_FACE_VERIFY(verify10, uint32_t);
SKIFF_FACE_VERIFY(verify12, uint32_t);
SKIFF_FACE_VERIFY(verify16, uint64_t);

FACE scsi_task* scsi_cdb_writeatomic16(uint64_t lba, uint32_t xferlen,
                                       int blocksize, int wrprotect, int dpo,
                                       int fua, int group_number);
FACE scsi_task* scsi_cdb_writesame10(int wrprotect, int anchor, int unmap,
                                     uint32_t lba, int group,
                                     uint16_t num_blocks, uint32_t datalen);
FACE scsi_task* scsi_cdb_writesame16(int wrprotect, int anchor, int unmap,
                                     uint64_t lba, int group,
                                     uint32_t num_blocks, uint32_t datalen);
FACE scsi_task* scsi_cdb_readdefectdata10(int req_plist, int req_glist,
                                          int defect_list_format,
                                          uint16_t alloc_len);
FACE scsi_task* scsi_cdb_readdefectdata12(int req_plist, int req_glist,
                                          int defect_list_format,
                                          uint32_t address_descriptor_index,
                                          uint32_t alloc_len);
FACE scsi_task* scsi_cdb_sanitize(int immed, int ause, int sa, int param_len);
FACE scsi_task* scsi_cdb_startstopunit(int immed, int pcm, int pc, int no_flush,
                                       int loej, int start);
FACE scsi_task* scsi_cdb_preventallow(int prevent);
FACE scsi_task* scsi_cdb_readtoc(int msf, int format, int track_session,
                                 uint16_t alloc_len);
FACE scsi_task* scsi_cdb_reserve6();
FACE scsi_task* scsi_cdb_release6();
FACE scsi_task* scsi_cdb_persistent_reserve_in(int sa, uint16_t xferlen);
// `params` is a scsi_persistent_reserve_out_basic.
FACE scsi_task* scsi_cdb_persistent_reserve_out(int sa, int scope, int type,
                                                void* params);
FACE scsi_task* scsi_cdb_report_supported_opcodes(int rctd, int options,
                                                  int opcode, int sa,
                                                  uint32_t alloc_len);
FACE scsi_task* scsi_cdb_extended_copy(int param_len);
FACE scsi_task* scsi_cdb_receive_copy_results(int sa, int list_id, int xferlen);
FACE scsi_task* scsi_cdb_serviceactionin16(int sa, uint32_t xferlen);

}  // namespace skiff::libiscsi

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_CDB_H_
