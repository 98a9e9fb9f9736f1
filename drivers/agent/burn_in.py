"""Burn-in by the agent: the keys of `driver_info` that its steps `burnin_*` read."""

from collections.abc import Mapping

from drivers.core.target import Target

PREFIX = "agent_burnin_"
PROPERTIES: Mapping[str, str] = {
    "agent_burnin_cpu_timeout": "seconds of `burnin_cpu`; the agent's default is a day",
    "agent_burnin_cpu_cpu": "workers of `burnin_cpu`; 0: one for each processor",
    "agent_burnin_cpu_outputfile": "file of the ramdisk for the output of `burnin_cpu`",
    "agent_burnin_gpu_timeout": "seconds of `burnin_gpu`",
    "agent_burnin_gpu_count": "graphics processors that `burnin_gpu` expects",
    "agent_burnin_gpu_memory": "memory of each graphics processor that `burnin_gpu` uses, as 95%",
    "agent_burnin_gpu_install_dir": "folder of the ramdisk with the program of `burnin_gpu`",
    "agent_burnin_vm_timeout": "seconds of `burnin_memory`; the agent's default is a day",
    "agent_burnin_vm_vm": "workers of `burnin_memory`; 0: one for each processor",
    "agent_burnin_vm_vm-bytes": "memory that `burnin_memory` uses, as 98%",
    "agent_burnin_vm_outputfile": "file of the ramdisk for the output of `burnin_memory`",
    "agent_burnin_fio_disk_runtime": "seconds of `burnin_disk`; 0: no limit",
    "agent_burnin_fio_disk_loops": "passes of `burnin_disk`; the agent's default is 4",
    "agent_burnin_fio_disk_smart_test": "true: `burnin_disk` ends with a self-test of each disk",
    "agent_burnin_fio_disk_outputfile": "file of the ramdisk for the output of `burnin_disk`",
    "agent_burnin_fio_network_runtime": "seconds of `burnin_network`",
    "agent_burnin_fio_network_config": "role (writer or reader) and partner of `burnin_network`",
    "agent_burnin_fio_network_outputfile": "file of the ramdisk for the output of `burnin_network`",
    "agent_burnin_fio_network_pairing_timeout": "seconds to find a partner of `burnin_network`",
    "agent_burnin_fio_network_pairing_group_name": "group in which partners find each other",
    "agent_burnin_fio_network_pairing_backend_url": "URL of the coordination service of partners",
}


def parameters(target: Target) -> Mapping[str, object]:
    """
    Return the keys of `driver_info` for the agent.

    All others stay here: passwords and addresses of BMCs are among them.
    """
    return {name: value for name, value in target.driver_info.items() if name.startswith(PREFIX)}
