"""Redfish documents of the BMC: manager, chassis, media, sessions, tasks, firmware."""

from collections.abc import Callable
from functools import partial
from time import time

from drivers.simulator.machine import Machine
from drivers.simulator.redfish_bmc import events
from drivers.simulator.redfish_bmc.documents import (
    ACCOUNTS,
    CHASSIS,
    EVENTS,
    INVENTORY,
    MANAGER,
    MONITORS,
    OK,
    REGISTRY,
    ROOT,
    SESSIONS,
    SUBSCRIPTIONS,
    TASKS,
    Document,
    collection,
    link,
    listing,
    redfish_time,
    resource,
)
from drivers.simulator.redfish_bmc.registries import registry, registry_file


def root(machine: Machine) -> Document:
    services = ("Systems", "Managers", "Chassis", "SessionService", "AccountService")
    more_services = ("UpdateService", "EventService", "Registries")
    return resource(
        f"{ROOT}/",
        "ServiceRoot.v1_9_0.ServiceRoot",
        "Root Service",
        **{name: link(f"{ROOT}/{name}") for name in (*services, *more_services)},
        Id="RootService",
        RedfishVersion="1.12.0",
        UUID=machine.uuid,
        Vendor="Simulated",
        Tasks=link(f"{ROOT}/TaskService"),
        Links={"Sessions": link(SESSIONS)},
    )


def manager(machine: Machine) -> Document:
    return resource(
        MANAGER,
        "Manager.v1_9_0.Manager",
        "Manager",
        ManagerType="BMC",
        Model="Simulated BMC",
        FirmwareVersion=machine.firmware["BMC"],
        UUID=machine.uuid,
        DateTime=redfish_time(time() + machine.clock_ahead),
        DateTimeLocalOffset=machine.clock_offset,
        Status=OK,
        PowerState="On",
        VirtualMedia=link(f"{MANAGER}/VirtualMedia"),
        EthernetInterfaces=link(f"{MANAGER}/EthernetInterfaces"),
        Links={
            "ManagerForServers": [link(machine.system_id)],
            "ManagerForChassis": [link(CHASSIS)],
        },
        Actions={
            "#Manager.Reset": {
                "target": f"{MANAGER}/Actions/Manager.Reset",
                "ResetType@Redfish.AllowableValues": ["ForceRestart", "GracefulRestart"],
            }
        },
    )


def manager_nic(machine: Machine) -> Document:
    return resource(
        f"{MANAGER}/EthernetInterfaces/eth0",
        "EthernetInterface.v1_6_0.EthernetInterface",
        "BMC network",
        MACAddress="52:58" + machine.mac[5:],
        IPv4Addresses=[{"Address": machine.address, "AddressOrigin": "Static"}],
        Status=OK,
    )


def media(machine: Machine) -> Document:
    path = f"{MANAGER}/VirtualMedia"
    return collection(path, "VirtualMedia", (f"{path}/{device}" for device in machine.media))


def medium(device: str, machine: Machine) -> Document:
    path = f"{MANAGER}/VirtualMedia/{device}"
    url = machine.media[device]
    return resource(
        path,
        "VirtualMedia.v1_4_0.VirtualMedia",
        "Virtual CD" if device == "Cd" else "Virtual Floppy",
        MediaTypes=["CD", "DVD"] if device == "Cd" else ["Floppy", "USBStick"],
        Image=url or None,
        ImageName=url.rsplit("/", 1)[-1].partition("?")[0],
        Inserted=bool(url),
        WriteProtected=True,
        ConnectedVia="URI" if url else "NotConnected",
        Actions={
            f"#VirtualMedia.{action}": {"target": f"{path}/Actions/VirtualMedia.{action}"}
            for action in ("InsertMedia", "EjectMedia")
        },
    )


def chassis(machine: Machine) -> Document:
    return resource(
        CHASSIS,
        "Chassis.v1_14_0.Chassis",
        f"{machine.name} chassis",
        ChassisType="RackMount",
        Manufacturer="Simulated",
        Model="Simulated Machine",
        SerialNumber=f"SIM-{machine.number:04d}",
        IndicatorLED=machine.indicator,
        PowerState=machine.power,
        Status=OK,
        Power=link(f"{CHASSIS}/Power"),
        Thermal=link(f"{CHASSIS}/Thermal"),
        Links={"ComputerSystems": [link(machine.system_id)], "ManagedBy": [link(MANAGER)]},
    )


def power(machine: Machine) -> Document:
    supply = {
        "@odata.id": f"{CHASSIS}/Power#/PowerSupplies/0",
        "MemberId": "0",
        "Name": "Power Supply 0",
        "PowerCapacityWatts": 750,
        "LineInputVoltage": 230,
        "LastPowerOutputWatts": 210 if machine.power == "On" else 15,
        "Status": _sensor_status(machine, "Power Supply 0"),
    }
    return resource(f"{CHASSIS}/Power", "Power.v1_6_0.Power", "Power", PowerSupplies=[supply])


def thermal(machine: Machine) -> Document:
    is_on = machine.power == "On"
    fan = {"MemberId": "0", "Name": "Fan 0", "Reading": 4200 if is_on else 0, "ReadingUnits": "RPM"}
    inlet = {
        "MemberId": "0",
        "Name": "Inlet",
        "ReadingCelsius": 24 if is_on else 20,
        "PhysicalContext": "Intake",
        "UpperThresholdCritical": 45,
    }
    return resource(
        f"{CHASSIS}/Thermal",
        "Thermal.v1_6_0.Thermal",
        "Thermal",
        Status=OK,
        Fans=[
            {
                "@odata.id": f"{CHASSIS}/Thermal#/Fans/0",
                **fan,
                "Status": _sensor_status(machine, "Fan 0"),
            }
        ],
        Temperatures=[
            {
                "@odata.id": f"{CHASSIS}/Thermal#/Temperatures/0",
                **inlet,
                "Status": _sensor_status(machine, "Inlet"),
            },
        ],
    )


def _sensor_status(machine: Machine, name: str) -> Document:
    return OK | {"Health": "Critical"} if name == machine.faults.sensor_critical else OK


def session_service(_machine: Machine) -> Document:
    return resource(
        f"{ROOT}/SessionService",
        "SessionService.v1_1_8.SessionService",
        "Session Service",
        ServiceEnabled=True,
        SessionTimeout=1800,
        Sessions=link(SESSIONS),
    )


def sessions(machine: Machine) -> Document:
    return collection(
        SESSIONS, "Session", (f"{SESSIONS}/{session}" for session in machine.sessions)
    )


def session(number: str, username: str) -> Document:
    return resource(
        f"{SESSIONS}/{number}", "Session.v1_3_0.Session", "User Session", UserName=username
    )


def account_service(machine: Machine) -> Document:
    return resource(
        f"{ROOT}/AccountService",
        "AccountService.v1_9_0.AccountService",
        "Account Service",
        ServiceEnabled=True,
        MinPasswordLength=8,
        MaxPasswordLength=20,
        AccountLockoutThreshold=machine.faults.lockout_after,
        AccountLockoutDuration=int(machine.faults.lockout_seconds),
        Accounts=link(ACCOUNTS),
    )


def other_account(_machine: Machine) -> Document:
    kind = "ManagerAccount.v1_8_0.ManagerAccount"
    return resource(f"{ACCOUNTS}/1", kind, "Account", UserName="", Enabled=False, RoleId="None")


def account(machine: Machine) -> Document:
    return resource(
        f"{ACCOUNTS}/2",
        "ManagerAccount.v1_8_0.ManagerAccount",
        "Account",
        UserName=machine.username,
        Password=None,
        Enabled=True,
        RoleId="Administrator",
    )


def update_service(_machine: Machine) -> Document:
    path = f"{ROOT}/UpdateService"
    return resource(
        path,
        "UpdateService.v1_8_0.UpdateService",
        "Update Service",
        ServiceEnabled=True,
        Status=OK,
        FirmwareInventory=link(INVENTORY),
        Actions={
            "#UpdateService.SimpleUpdate": {
                "target": f"{path}/Actions/UpdateService.SimpleUpdate",
                "TransferProtocol@Redfish.AllowableValues": ["HTTP", "HTTPS"],
            }
        },
    )


def firmware_list(machine: Machine) -> Document:
    return collection(
        INVENTORY, "SoftwareInventory", (f"{INVENTORY}/{part}" for part in machine.firmware)
    )


def firmware(part: str, machine: Machine) -> Document:
    return resource(
        f"{INVENTORY}/{part}",
        "SoftwareInventory.v1_4_0.SoftwareInventory",
        f"{part} firmware",
        Version=machine.firmware[part],
        Updateable=True,
        Manufacturer="Simulated",
        SoftwareId=f"SIM-{part}",
        Status=OK,
    )


def task_service(_machine: Machine) -> Document:
    return resource(
        f"{ROOT}/TaskService",
        "TaskService.v1_1_5.TaskService",
        "Task Service",
        ServiceEnabled=True,
        Tasks=link(TASKS),
    )


def tasks(machine: Machine) -> Document:
    visible_tasks = (task for task in machine.tasks if not task.hidden)
    return collection(TASKS, "Task", (f"{TASKS}/{task.number}" for task in visible_tasks))


def task(machine: Machine, number: int) -> Document:
    """Return a task. Raises IndexError if no task has this number."""
    job = machine.tasks[number]
    is_done = time() >= job.ends
    state, status = ("Exception", "Critical") if job.failure else (job.state, job.status)
    message = (job.failure or job.message) if is_done else ""
    document = resource(
        f"{TASKS}/{number}",
        "Task.v1_5_0.Task",
        job.name,
        TaskState=state if is_done else "Running",
        TaskStatus=status if is_done else "OK",
        PercentComplete=100 if is_done else 50,
        StartTime=redfish_time(job.started),
        TaskMonitor=f"{MONITORS}/{number}",
        Messages=[{"MessageId": "Base.1.12.InternalError", "Message": message}] if message else [],
    )
    return document | ({"EndTime": redfish_time(job.ends)} if is_done else {})


BMC_DOCUMENTS: dict[str, Callable[[Machine], Document]] = {
    ROOT: root,
    f"{ROOT}/Managers": listing(f"{ROOT}/Managers", "Manager", "BMC"),
    MANAGER: manager,
    f"{MANAGER}/EthernetInterfaces": listing(
        f"{MANAGER}/EthernetInterfaces", "EthernetInterface", "eth0"
    ),
    f"{MANAGER}/EthernetInterfaces/eth0": manager_nic,
    f"{MANAGER}/VirtualMedia": media,
    **{f"{MANAGER}/VirtualMedia/{device}": partial(medium, device) for device in ("Cd", "Floppy")},
    f"{ROOT}/Chassis": listing(f"{ROOT}/Chassis", "Chassis", "Chassis"),
    CHASSIS: chassis,
    f"{CHASSIS}/Power": power,
    f"{CHASSIS}/Thermal": thermal,
    f"{ROOT}/SessionService": session_service,
    SESSIONS: sessions,
    f"{ROOT}/AccountService": account_service,
    ACCOUNTS: listing(ACCOUNTS, "ManagerAccount", "1", "2"),
    f"{ACCOUNTS}/1": other_account,
    f"{ACCOUNTS}/2": account,
    f"{ROOT}/UpdateService": update_service,
    INVENTORY: firmware_list,
    **{f"{INVENTORY}/{part}": partial(firmware, part) for part in ("BIOS", "BMC")},
    EVENTS: events.service,
    SUBSCRIPTIONS: events.subscriptions,
    f"{ROOT}/TaskService": task_service,
    TASKS: tasks,
    f"{ROOT}/Registries": listing(
        f"{ROOT}/Registries", "MessageRegistryFile", "BiosAttributeRegistry"
    ),
    REGISTRY: registry_file,
    f"{REGISTRY}/en": registry,
}
