// Compares the structs of types.h with those of Debian's libiscsi-dev: that
// this compiles is the test.
#include <iscsi/iscsi.h>
// iscsi.h comes first: it declares what the other one uses.
#include <iscsi/scsi-lowlevel.h>

#include <cstddef>

#include "tools/clients/libiscsi/types.h"

namespace {

namespace face = skiff::libiscsi;

// Structs of libiscsi's with a common beginning derive from it in ours.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

// Some members are pointers.
// NOLINTBEGIN(bugprone-sizeof-expression)
#define SAME_SIZE(type) \
  static_assert(sizeof(face::type) == sizeof(::type), #type)
#define SAME_PLACE(type, member)                                            \
  static_assert(offsetof(face::type, member) == offsetof(::type, member) && \
                    sizeof(face::type::member) == sizeof(::type::member),   \
                #type "." #member)

SAME_SIZE(iscsi_url);
SAME_PLACE(iscsi_url, target);
SAME_PLACE(iscsi_url, target_passwd);
SAME_PLACE(iscsi_url, lun);
SAME_PLACE(iscsi_url, iscsi);
SAME_PLACE(iscsi_url, transport);
SAME_SIZE(iscsi_target_portal);
SAME_PLACE(iscsi_target_portal, portal);
SAME_SIZE(iscsi_discovery_address);
SAME_PLACE(iscsi_discovery_address, target_name);
SAME_PLACE(iscsi_discovery_address, portals);
SAME_SIZE(iscsi_data);
SAME_PLACE(iscsi_data, data);
SAME_SIZE(unmap_list);
SAME_PLACE(unmap_list, num);

static_assert(sizeof(iovec) == sizeof(scsi_iovec));
static_assert(offsetof(iovec, iov_len) == offsetof(scsi_iovec, iov_len));
SAME_SIZE(scsi_iovector);
SAME_PLACE(scsi_iovector, nalloc);
SAME_PLACE(scsi_iovector, consumed);
SAME_SIZE(scsi_sense);
SAME_PLACE(scsi_sense, key);
SAME_PLACE(scsi_sense, ascq);
SAME_PLACE(scsi_sense, bit_pointer);
SAME_PLACE(scsi_sense, field_pointer);
SAME_SIZE(scsi_data);
SAME_PLACE(scsi_data, data);
SAME_SIZE(scsi_task);
SAME_PLACE(scsi_task, status);
SAME_PLACE(scsi_task, cdb_size);
SAME_PLACE(scsi_task, xfer_dir);
SAME_PLACE(scsi_task, expxferlen);
SAME_PLACE(scsi_task, cdb);
SAME_PLACE(scsi_task, residual_status);
SAME_PLACE(scsi_task, residual);
SAME_PLACE(scsi_task, sense);
SAME_PLACE(scsi_task, datain);
SAME_PLACE(scsi_task, mem);
SAME_PLACE(scsi_task, ptr);
SAME_PLACE(scsi_task, itt);
SAME_PLACE(scsi_task, lun);
SAME_PLACE(scsi_task, iovector_in);
SAME_PLACE(scsi_task, iovector_out);

SAME_SIZE(scsi_readcapacity10);
SAME_SIZE(scsi_readcapacity16);
SAME_PLACE(scsi_readcapacity16, lbppbe);
SAME_PLACE(scsi_readcapacity16, lalba);
static_assert(offsetof(face::scsi_reportluns_list, luns) ==
              offsetof(::scsi_reportluns_list, luns));
SAME_SIZE(scsi_lba_status_descriptor);
SAME_PLACE(scsi_lba_status_descriptor, provisioning);
SAME_SIZE(scsi_get_lba_status);
SAME_PLACE(scsi_get_lba_status, descriptors);

SAME_SIZE(scsi_inquiry_standard);
SAME_PLACE(scsi_inquiry_standard, additional_length);
SAME_PLACE(scsi_inquiry_standard, cmdque);
SAME_PLACE(scsi_inquiry_standard, vendor_identification);
SAME_PLACE(scsi_inquiry_standard, product_revision_level);
SAME_PLACE(scsi_inquiry_standard, version_descriptor);
SAME_SIZE(scsi_inquiry_supported_pages);
SAME_PLACE(scsi_inquiry_supported_pages, num_pages);
SAME_PLACE(scsi_inquiry_supported_pages, pages);
SAME_SIZE(scsi_inquiry_unit_serial_number);
SAME_PLACE(scsi_inquiry_unit_serial_number, usn);
SAME_SIZE(scsi_inquiry_device_designator);
SAME_PLACE(scsi_inquiry_device_designator, piv);
SAME_PLACE(scsi_inquiry_device_designator, designator_type);
SAME_PLACE(scsi_inquiry_device_designator, designator);
SAME_SIZE(scsi_inquiry_device_identification);
SAME_PLACE(scsi_inquiry_device_identification, designators);
SAME_SIZE(scsi_inquiry_block_limits);
SAME_PLACE(scsi_inquiry_block_limits, wsnz);
SAME_PLACE(scsi_inquiry_block_limits, max_cmp);
SAME_PLACE(scsi_inquiry_block_limits, opt_gran);
SAME_PLACE(scsi_inquiry_block_limits, max_unmap);
SAME_PLACE(scsi_inquiry_block_limits, ugavalid);
SAME_PLACE(scsi_inquiry_block_limits, max_ws_len);
SAME_PLACE(scsi_inquiry_block_limits, max_atomic_boundary_size);
SAME_SIZE(scsi_inquiry_block_device_characteristics);
SAME_PLACE(scsi_inquiry_block_device_characteristics, vbuls);
SAME_SIZE(scsi_inquiry_logical_block_provisioning);
SAME_PLACE(scsi_inquiry_logical_block_provisioning, lbpu);
SAME_PLACE(scsi_inquiry_logical_block_provisioning, provisioning_type);

SAME_SIZE(scsi_mode_page_caching);
SAME_PLACE(scsi_mode_page_caching, wce);
SAME_PLACE(scsi_mode_page_caching, cache_segment_size);
SAME_SIZE(scsi_mode_page_power_condition);
SAME_PLACE(scsi_mode_page_power_condition, ccf_stopped);
SAME_SIZE(scsi_mode_page_control);
SAME_PLACE(scsi_mode_page_control, swp);
SAME_PLACE(scsi_mode_page_control, autoload_mode);
SAME_SIZE(scsi_mode_page_disconnect_reconnect);
SAME_SIZE(scsi_mode_page_informational_exceptions_control);
SAME_SIZE(scsi_mode_page);
SAME_PLACE(scsi_mode_page, page_code);
SAME_PLACE(scsi_mode_page, len);
SAME_PLACE(scsi_mode_page, caching);
SAME_PLACE(scsi_mode_page, iec);
SAME_SIZE(scsi_mode_sense);
SAME_PLACE(scsi_mode_sense, device_specific_parameter);
SAME_PLACE(scsi_mode_sense, pages);

SAME_SIZE(scsi_op_timeout_descriptor);
SAME_SIZE(scsi_command_descriptor);
SAME_PLACE(scsi_command_descriptor, cdb_len);
SAME_PLACE(scsi_command_descriptor, to);
static_assert(offsetof(face::scsi_report_supported_op_codes, descriptors) ==
              offsetof(::scsi_report_supported_op_codes, descriptors));
SAME_SIZE(scsi_report_supported_op_codes_one_command);
SAME_PLACE(scsi_report_supported_op_codes_one_command, cdb_usage_data);
SAME_PLACE(scsi_report_supported_op_codes_one_command, to);
SAME_SIZE(scsi_persistent_reserve_out_basic);
SAME_PLACE(scsi_persistent_reserve_out_basic, aptpl);
static_assert(offsetof(face::scsi_persistent_reserve_in_read_keys, keys) ==
              offsetof(::scsi_persistent_reserve_in_read_keys, keys));
SAME_SIZE(scsi_persistent_reserve_in_read_reservation);
SAME_PLACE(scsi_persistent_reserve_in_read_reservation, pr_type);
SAME_SIZE(scsi_persistent_reserve_in_report_capabilities);

SAME_SIZE(scsi_read6_cdb);
static_assert(sizeof(face::scsi_transfer10_cdb) == sizeof(::scsi_read10_cdb));
static_assert(sizeof(face::scsi_transfer10_cdb) == sizeof(::scsi_write10_cdb));
static_assert(offsetof(face::scsi_transfer10_cdb, transfer_length) ==
              offsetof(::scsi_read10_cdb, transfer_length));
SAME_SIZE(scsi_read12_cdb);
SAME_PLACE(scsi_read12_cdb, group);
SAME_SIZE(scsi_read16_cdb);
SAME_PLACE(scsi_read16_cdb, group);
SAME_SIZE(scsi_verify10_cdb);
SAME_PLACE(scsi_verify10_cdb, verification_length);
SAME_SIZE(scsi_verify12_cdb);
SAME_SIZE(scsi_verify16_cdb);
SAME_PLACE(scsi_verify16_cdb, verification_length);
SAME_SIZE(scsi_write12_cdb);
SAME_SIZE(scsi_write16_cdb);
SAME_PLACE(scsi_write16_cdb, transfer_length);
SAME_SIZE(scsi_writeatomic16_cdb);
SAME_PLACE(scsi_writeatomic16_cdb, transfer_length);

// NOLINTEND(bugprone-sizeof-expression)

}  // namespace

int main() { return 0; }
