"""
Keys of a node's fields that Ironic 39 reads, and the module here that reads each.

The keys are those that `python -m tests.compare.node_keys` finds in Ironic's source, and those that
its drivers build from parts (`ipmi_%s`, `%s_by_arch`). Keys without a module are refused
(`drivers.core.unread_keys`), or listed in docs/compatibility.md.
"""

#: field -> key -> module that reads it
READ = {
    "driver_info": {
        "agent_verify_ca": "drivers/agent/client.py",
        "bootloader": "drivers/boot/iso.py",
        "cleaning_network": "drivers/core/kinds/agent_networks.py",
        "cleaning_runbook": "app/planning/requested_steps.py",
        "deploy_forces_oob_reboot": "drivers/agent/deploy.py",
        "deploy_iso": "drivers/redfish/booting/boot.py",
        "deploy_kernel": "drivers/boot/ramdisks.py",
        "deploy_ramdisk": "drivers/boot/ramdisks.py",
        "external_http_url": "drivers/net/service_addresses.py",
        "fail_on_binding_failure": "drivers/neutron/settled.py",
        "fast_track": "drivers/core/fast_track.py",
        "force_persistent_boot_device": "drivers/boot/network.py",
        "image_download_source": "drivers/images/published.py",
        "image_http_proxy": "drivers/agent/image.py",
        "image_https_proxy": "drivers/agent/image.py",
        "image_no_proxy": "drivers/agent/image.py",
        "inspection_network": "drivers/core/kinds/agent_networks.py",
        "ipmi_address": "drivers/ipmi/credentials.py",
        "ipmi_bridging": "drivers/ipmi/credentials.py",
        "ipmi_cipher_suite": "drivers/ipmi/credentials.py",
        "ipmi_disable_boot_timeout": "drivers/ipmi/management.py",
        "ipmi_force_boot_device": "drivers/ipmi/management.py",
        "ipmi_hex_kg_key": "drivers/ipmi/credentials.py",
        "ipmi_local_address": "drivers/ipmi/credentials.py",
        "ipmi_password": "drivers/ipmi/credentials.py",
        "ipmi_port": "drivers/ipmi/credentials.py",
        "ipmi_priv_level": "drivers/ipmi/credentials.py",
        "ipmi_protocol_version": "drivers/ipmi/credentials.py",
        "ipmi_target_address": "drivers/ipmi/credentials.py",
        "ipmi_terminal_port": "drivers/ipmi/console.py",
        "ipmi_target_channel": "drivers/ipmi/credentials.py",
        "ipmi_transit_address": "drivers/ipmi/credentials.py",
        "ipmi_transit_channel": "drivers/ipmi/credentials.py",
        "ipmi_username": "drivers/ipmi/credentials.py",
        "kernel_append_params": "drivers/boot/command_line.py",
        "provisioning_network": "drivers/core/kinds/agent_networks.py",
        "redfish_address": "drivers/redfish/transport/access.py",
        "redfish_auth_type": "drivers/redfish/transport/access.py",
        "redfish_password": "drivers/redfish/transport/access.py",
        "redfish_system_id": "drivers/redfish/transport/access.py",
        "redfish_username": "drivers/redfish/transport/access.py",
        "redfish_verify_ca": "drivers/redfish/transport/access.py",
        "rescue_iso": "drivers/redfish/booting/boot.py",
        "rescue_kernel": "drivers/boot/ramdisks.py",
        "rescue_ramdisk": "drivers/boot/ramdisks.py",
        "rescuing_network": "drivers/core/kinds/agent_networks.py",
        "servicing_network": "drivers/core/kinds/agent_networks.py",
        "vnc_host": "drivers/redfish/graphical_console.py",
        "vnc_password": "drivers/redfish/graphical_console.py",
        "vnc_port": "drivers/redfish/graphical_console.py",
        "vnc_tls": "drivers/redfish/graphical_console.py",
    },
    "instance_info": {
        "boot_iso": "drivers/images/instance.py",
        "bootc_authorized_keys": "drivers/agent/bootc.py",
        "bootc_tpm2_luks": "drivers/agent/bootc.py",
        "capabilities": "drivers/core/capabilities.py",
        "configdrive": "drivers/agent/image.py",
        "display_name": "app/inventory/nodes.py",
        "ephemeral_format": "drivers/agent/image.py",
        "ephemeral_gb": "drivers/agent/image.py",
        "hashed_rescue_password": "drivers/agent/rescue.py",
        "image_checksum": "drivers/images/checksums.py",
        "image_container_format": "drivers/agent/image.py",
        "image_disk_format": "drivers/agent/image.py",
        "image_download_source": "drivers/images/published.py",
        "image_os_hash_algo": "drivers/images/checksums.py",
        "image_os_hash_value": "drivers/images/checksums.py",
        "image_pull_secret": "drivers/images/registries.py",
        "image_rootfs_uuid": "drivers/agent/image.py",
        "image_source": "drivers/agent/image.py",
        "image_type": "drivers/agent/image.py",
        "kernel": "drivers/images/instance.py",
        "ks_template": "drivers/images/instance.py",
        "preserve_ephemeral": "drivers/agent/image.py",
        "project_id": "app/engine/provisioning.py",
        "ramdisk": "drivers/images/instance.py",
        "ramdisk_kernel_arguments": "drivers/images/instance.py",
        "rescue_password": "drivers/agent/rescue.py",
        "root_gb": "drivers/agent/image.py",
        "stage2": "drivers/images/instance.py",
        "swap_mb": "drivers/agent/image.py",
        "traits": "app/inventory/templates.py",
    },
    "properties": {
        "capabilities": "drivers/core/capabilities.py",
        "cpu_arch": "drivers/boot/ramdisks.py",
        "memory_mb": "drivers/agent/image.py",
        "vendor": "drivers/redfish/management.py",
    },
    "capabilities": {
        "boot_mode": "drivers/core/capabilities.py",
        "boot_option": "drivers/core/capabilities.py",
        "disk_label": "drivers/core/capabilities.py",
        "secure_boot": "drivers/core/capabilities.py",
    },
}  # fmt: skip

#: field -> keys that Ironic reads, and no module here
UNREAD = {
    "driver_info": """
        ansible_clean_playbook ansible_clean_steps_config ansible_deploy_playbook ansible_key_file
        ansible_playbooks_path ansible_python_interpreter ansible_shutdown_playbook
        ansible_username config_via_floppy config_via_removable
        firmware_update_unresponsive_bmc_wait has_dedicated_power_supply
        image_pull_secret pxe_template
        redfish_tls_ciphers redfish_tls_minimum_version vmedia_transport_protocol
    """,
    "instance_info": """
        container_image_type image_properties image_request_authorization_secret
        image_tags image_url oci_image_manifest_url ramdisk_image_download_source root_device
    """,
    "properties": "local_gb root_device skip_block_devices",
    "capabilities": "fibre_channel_boot ipxe_boot iscsi_boot",
}
