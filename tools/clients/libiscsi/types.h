/// @file
/// What programs that were built with libiscsi 1.19 know of it: the structs
/// that they look into, and numbers. Names and order are libiscsi's, so that
/// they find each other; layout_test.cc compares them with its headers.
#ifndef SKIFF_TOOLS_CLIENTS_LIBISCSI_TYPES_H_
#define SKIFF_TOOLS_CLIENTS_LIBISCSI_TYPES_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming)
namespace skiff::libiscsi {

struct iscsi_context;

// --- How commands end. What is no status of SAM's is libiscsi's own.

inline constexpr int kGood = 0x00;
inline constexpr int kCheckCondition = 0x02;
inline constexpr int kConditionMet = 0x04;
inline constexpr int kBusy = 0x08;
inline constexpr int kReservationConflict = 0x18;
inline constexpr int kTaskSetFull = 0x28;
inline constexpr int kAcaActive = 0x30;
inline constexpr int kTaskAborted = 0x40;
inline constexpr int kCancelled = 0x0f000000;
inline constexpr int kError = 0x0f000001;
inline constexpr int kTimedOut = 0x0f000002;

// `command_data` is the scsi_task of a command, or what the call says.
using iscsi_command_cb = void (*)(iscsi_context* iscsi, int status,
                                  void* command_data, void* private_data);
using iscsi_log_fn = void (*)(int level, const char* message);

// --- Sessions.

inline constexpr size_t kUrlText = 256;

enum iscsi_transport_type : int { kTcpTransport = 0, kIserTransport = 1 };
enum iscsi_session_type : int { kDiscoverySession = 1, kNormalSession = 2 };

struct iscsi_url {
  char portal[kUrlText];
  char target[kUrlText];
  char user[kUrlText];
  char passwd[kUrlText];
  char target_user[kUrlText];
  char target_passwd[kUrlText];
  int lun;
  iscsi_context* iscsi;
  iscsi_transport_type transport;
};

struct iscsi_target_portal {
  iscsi_target_portal* next;
  const char* portal;
};

struct iscsi_discovery_address {
  iscsi_discovery_address* next;
  const char* target_name;
  iscsi_target_portal* portals;
};

struct iscsi_data {
  size_t size;
  unsigned char* data;
};

struct unmap_list {
  uint64_t lba;
  uint32_t num;
};

// --- Tasks.

inline constexpr int kMaxCdb = 16;

enum scsi_xfer_dir : int { kNoTransfer = 0, kTransferIn = 1, kTransferOut = 2 };
enum scsi_residual : int {
  kNoResidual = 0,
  kUnderflow = 1,
  kOverflow = 2,
};

struct scsi_sense {
  unsigned char error_type;
  int key;
  int ascq;
  unsigned sense_specific : 1;
  unsigned ill_param_in_cdb : 1;
  unsigned bit_pointer_valid : 1;
  unsigned char bit_pointer;
  uint16_t field_pointer;
};

struct scsi_data {
  int size;
  unsigned char* data;
};

// iovec has the layout of libiscsi's scsi_iovec.
struct scsi_iovector {
  iovec* iov;
  int niov;
  int nalloc;
  size_t offset;
  int consumed;
};

struct scsi_allocated_memory;

struct scsi_task {
  int status;
  int cdb_size;
  int xfer_dir;
  int expxferlen;
  unsigned char cdb[kMaxCdb];
  scsi_residual residual_status;
  size_t residual;
  scsi_sense sense;
  scsi_data datain;
  scsi_allocated_memory* mem;
  void* ptr;
  uint32_t itt;
  uint32_t cmdsn;
  uint32_t lun;
  scsi_iovector iovector_in;
  scsi_iovector iovector_out;
};

// --- What scsi_datain_unmarshall() makes of answers.

struct scsi_readcapacity10 {
  uint32_t lba;
  uint32_t block_size;
};

struct scsi_readcapacity16 {
  uint64_t returned_lba;
  uint32_t block_length;
  uint8_t p_type;
  uint8_t prot_en;
  uint8_t p_i_exp;
  uint8_t lbppbe;
  uint8_t lbpme;
  uint8_t lbprz;
  uint16_t lalba;
};

struct scsi_reportluns_list {
  uint32_t num;
  uint16_t luns[1];  // As many as `num`.
};

struct scsi_lba_status_descriptor {
  uint64_t lba;
  uint32_t num_blocks;
  int provisioning;
};

struct scsi_get_lba_status {
  uint32_t num_descriptors;
  scsi_lba_status_descriptor* descriptors;
};

struct scsi_inquiry_standard {
  int qualifier;
  int device_type;
  int rmb;
  int version;
  int normaca;
  int hisup;
  int response_data_format;
  int additional_length;
  int sccs;
  int acc;
  int tpgs;
  int threepc;
  int protect;
  int encserv;
  int multip;
  int addr16;
  int wbus16;
  int sync;
  int cmdque;
  int clocking;
  int qas;
  int ius;
  char vendor_identification[8 + 1];
  char product_identification[16 + 1];
  char product_revision_level[4 + 1];
  uint16_t version_descriptor[8];
};

// What all VPD pages begin with.
struct VpdPage {
  int qualifier;
  int device_type;
  int pagecode;
};

struct scsi_inquiry_supported_pages : VpdPage {
  int num_pages;
  unsigned char* pages;
};

struct scsi_inquiry_unit_serial_number : VpdPage {
  char* usn;
};

struct scsi_inquiry_device_designator {
  scsi_inquiry_device_designator* next;
  int protocol_identifier;
  int code_set;
  int piv;
  int association;
  int designator_type;
  int designator_length;
  char* designator;
};

struct scsi_inquiry_device_identification : VpdPage {
  scsi_inquiry_device_designator* designators;
};

struct scsi_inquiry_block_limits : VpdPage {
  int wsnz;
  uint8_t max_cmp;
  uint16_t opt_gran;
  uint32_t max_xfer_len;
  uint32_t opt_xfer_len;
  uint32_t max_prefetch;
  uint32_t max_unmap;
  uint32_t max_unmap_bdc;
  uint32_t opt_unmap_gran;
  int ugavalid;
  uint32_t unmap_gran_align;
  uint64_t max_ws_len;
  uint32_t max_atomic_xfer_len;
  uint32_t atomic_align;
  uint32_t atomic_gran;
  uint32_t max_atomic_tl_with_atomic_boundary;
  uint32_t max_atomic_boundary_size;
};

struct scsi_inquiry_block_device_characteristics : VpdPage {
  int medium_rotation_rate;
  int product_type;
  int wabereq;
  int wacereq;
  int nominal_form_factor;
  int fuab;
  int vbuls;
};

struct scsi_inquiry_logical_block_provisioning : VpdPage {
  int threshold_exponent;
  int lbpu;
  int lbpws;
  int lbpws10;
  int lbprz;
  int anc_sup;
  int dp;
  int provisioning_type;
};

// --- Mode pages.

struct scsi_mode_page_caching {
  int ic;
  int abpf;
  int cap;
  int disc;
  int size;
  int wce;
  int mf;
  int rcd;
  int demand_read_retention_priority;
  int write_retention_priority;
  int disable_prefetch_transfer_length;
  int minimum_prefetch;
  int maximum_prefetch;
  int maximum_prefetch_ceiling;
  int fsw;
  int lbcss;
  int dra;
  int nv_dis;
  int number_of_cache_segments;
  int cache_segment_size;
};

struct scsi_mode_page_power_condition {
  int pm_bg_precedence;
  int standby_y;
  int idle_c;
  int idle_b;
  int idle_a;
  int standby_z;
  uint32_t idle_a_condition_timer;
  uint32_t standby_z_condition_timer;
  uint32_t idle_b_condition_timer;
  uint32_t idle_c_condition_timer;
  uint32_t standby_y_condition_timer;
  int ccf_idle;
  int ccf_standby;
  int ccf_stopped;
};

struct scsi_mode_page_control {
  int tst;
  int tmf_only;
  int dpicz;
  int d_sense;
  int gltsd;
  int rlec;
  int queue_algorithm_modifier;
  int nuar;
  int qerr;
  int vs;
  int rac;
  int ua_intlck_ctrl;
  int swp;
  int ato;
  int tas;
  int atmpe;
  int rwwp;
  int autoload_mode;
  int busy_timeout_period;
  int extended_selftest_completion_time;
};

struct scsi_mode_page_disconnect_reconnect {
  int buffer_full_ratio;
  int buffer_empty_ratio;
  int bus_inactivity_limit;
  int disconnect_time_limit;
  int connect_time_limit;
  int maximum_burst_size;
  int emdp;
  int fair_arbitration;
  int dimm;
  int dtdc;
  int first_burst_size;
};

struct scsi_mode_page_informational_exceptions_control {
  int perf;
  int ebf;
  int ewasc;
  int dexcpt;
  int test;
  int ebackerr;
  int logerr;
  int mrie;
  int interval_timer;
  int report_count;
};

struct scsi_mode_page {
  scsi_mode_page* next;
  int ps;
  int spf;
  int page_code;
  int subpage_code;
  int len;
  union {
    scsi_mode_page_caching caching;
    scsi_mode_page_control control;
    scsi_mode_page_disconnect_reconnect disconnect_reconnect;
    scsi_mode_page_informational_exceptions_control iec;
    scsi_mode_page_power_condition power_condition;
  };
};

struct scsi_mode_sense {
  uint16_t mode_data_length;
  uint8_t medium_type;
  uint8_t device_specific_parameter;
  uint8_t longlba;
  uint8_t block_descriptor_length;
  scsi_mode_page* pages;
};

// --- REPORT SUPPORTED OPERATION CODES, persistent reservations.

struct scsi_op_timeout_descriptor {
  uint16_t descriptor_length;
  uint8_t command_specific;
  uint32_t nominal_processing_timeout;
  uint32_t recommended_timeout;
};

struct scsi_command_descriptor {
  uint8_t opcode;
  uint16_t sa;
  uint8_t ctdp;
  uint8_t servactv;
  uint16_t cdb_len;
  scsi_op_timeout_descriptor to;
};

struct scsi_report_supported_op_codes {
  int num_descriptors;
  scsi_command_descriptor descriptors[1];  // As many as `num_descriptors`.
};

struct scsi_report_supported_op_codes_one_command {
  uint8_t ctdp;
  uint8_t support;
  uint8_t cdb_length;
  uint8_t cdb_usage_data[16];
  scsi_op_timeout_descriptor to;
};

struct scsi_report_supported_params {
  int return_timeouts;
};

struct scsi_persistent_reserve_out_basic {
  uint64_t reservation_key;
  uint64_t service_action_reservation_key;
  uint8_t spec_i_pt;
  uint8_t all_tg_pt;
  uint8_t aptpl;
};

struct scsi_persistent_reserve_in_read_keys {
  uint32_t prgeneration;
  uint32_t additional_length;
  int num_keys;
  uint64_t keys[1];  // As many as `num_keys`.
};

struct scsi_persistent_reserve_in_read_reservation {
  uint32_t prgeneration;
  uint32_t additional_length;
  int reserved;
  uint64_t reservation_key;
  unsigned char pr_scope;
  unsigned char pr_type;
};

struct scsi_persistent_reserve_in_report_capabilities {
  uint16_t length;
  uint8_t crh;
  uint8_t sip_c;
  uint8_t atp_c;
  uint8_t ptpl_c;
  uint8_t tmv;
  uint8_t allow_commands;
  uint8_t ptpl_a;
  uint16_t persistent_reservation_type_mask;
};

// --- What scsi_cdb_unmarshall() makes of CDBs.

struct scsi_read6_cdb {
  int opcode;
  uint32_t lba;
  uint16_t transfer_length;
  uint8_t control;
};

// READ(10) and WRITE(10).
struct scsi_transfer10_cdb {
  int opcode;
  uint8_t protect;
  uint8_t dpo;
  uint8_t fua;
  uint8_t fua_nv;
  uint32_t lba;
  uint8_t group;
  uint16_t transfer_length;
  uint8_t control;
};

struct scsi_read12_cdb {
  int opcode;
  uint8_t rdprotect;
  uint8_t dpo;
  uint8_t fua;
  uint8_t rarc;
  uint8_t fua_nv;
  uint32_t lba;
  uint32_t transfer_length;
  uint8_t group;
  uint8_t control;
};

struct scsi_read16_cdb {
  int opcode;
  uint8_t rdprotect;
  uint8_t dpo;
  uint8_t fua;
  uint8_t rarc;
  uint8_t fua_nv;
  uint64_t lba;
  uint32_t transfer_length;
  uint8_t group;
  uint8_t control;
};

struct scsi_verify10_cdb {
  int opcode;
  uint8_t vrprotect;
  uint8_t dpo;
  uint8_t bytchk;
  uint32_t lba;
  uint8_t group;
  uint16_t verification_length;
  uint8_t control;
};

struct scsi_verify12_cdb {
  int opcode;
  uint8_t vrprotect;
  uint8_t dpo;
  uint8_t bytchk;
  uint32_t lba;
  uint32_t verification_length;
  uint8_t group;
  uint8_t control;
};

struct scsi_verify16_cdb {
  int opcode;
  uint8_t vrprotect;
  uint8_t dpo;
  uint8_t bytchk;
  uint64_t lba;
  uint32_t verification_length;
  uint8_t group;
  uint8_t control;
};

struct scsi_write12_cdb {
  int opcode;
  uint8_t wrprotect;
  uint8_t dpo;
  uint8_t fua;
  uint8_t fua_nv;
  uint32_t lba;
  uint32_t transfer_length;
  uint8_t group;
  uint8_t control;
};

// As libiscsi declares it: with 32 bits for the LBA.
using scsi_write16_cdb = scsi_write12_cdb;

struct scsi_writeatomic16_cdb {
  int opcode;
  uint8_t wrprotect;
  uint8_t dpo;
  uint8_t fua;
  uint32_t lba;
  uint16_t transfer_length;
  uint8_t group;
  uint8_t control;
};

}  // namespace skiff::libiscsi
// NOLINTEND(readability-identifier-naming)

#endif  // SKIFF_TOOLS_CLIENTS_LIBISCSI_TYPES_H_
