BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('9fb44677ef15');
CREATE TABLE allocations (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	name VARCHAR(255), 
	node_id INTEGER, 
	state VARCHAR(15) NOT NULL, 
	owner VARCHAR(255), 
	last_error TEXT, 
	resource_class VARCHAR(80), 
	traits TEXT, 
	candidate_nodes TEXT, 
	extra TEXT, 
	conductor_affinity INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_allocations0name UNIQUE (name), 
	CONSTRAINT uniq_allocations0uuid UNIQUE (uuid)
);
INSERT INTO "allocations" VALUES(1,'00000000-0000-4000-8000-000000000203','for-me',4,'active','project-1',NULL,'baremetal','["CUSTOM_GPU"]','[]','{}',NULL,NULL,'2026-11-27 00:32:43.818838','2026-11-27 00:32:43.906167');
INSERT INTO "allocations" VALUES(2,'00000000-0000-4000-8000-000000000005','nobody',NULL,'error',NULL,'no node','gpu','[]','[]','{}',NULL,NULL,'2026-11-27 00:32:46.001191',NULL);
CREATE TABLE bios_settings (
	node_id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	value TEXT, 
	attribute_type VARCHAR(255), 
	allowable_values TEXT, 
	lower_bound BIGINT, 
	max_length INTEGER, 
	min_length INTEGER, 
	read_only BOOLEAN, 
	reset_required BOOLEAN, 
	"unique" BOOLEAN, 
	upper_bound BIGINT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "bios_settings" VALUES(1,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:43.097191',NULL);
INSERT INTO "bios_settings" VALUES(2,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:43.344454',NULL);
INSERT INTO "bios_settings" VALUES(3,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:43.579425',NULL);
INSERT INTO "bios_settings" VALUES(4,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:43.724202',NULL);
INSERT INTO "bios_settings" VALUES(5,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.013667',NULL);
INSERT INTO "bios_settings" VALUES(6,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.143499',NULL);
INSERT INTO "bios_settings" VALUES(7,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.281604',NULL);
INSERT INTO "bios_settings" VALUES(8,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.440407',NULL);
INSERT INTO "bios_settings" VALUES(9,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.648945',NULL);
INSERT INTO "bios_settings" VALUES(10,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.812327',NULL);
INSERT INTO "bios_settings" VALUES(11,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:44.971091',NULL);
INSERT INTO "bios_settings" VALUES(12,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:45.145765',NULL);
INSERT INTO "bios_settings" VALUES(13,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:45.348329',NULL);
INSERT INTO "bios_settings" VALUES(14,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:45.602651',NULL);
INSERT INTO "bios_settings" VALUES(15,'Boot','Uefi',NULL,'["Uefi"]',NULL,NULL,NULL,0,NULL,NULL,NULL,'1.1','2026-11-27 00:32:45.824979',NULL);
CREATE TABLE chassis (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	extra TEXT, 
	description VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_chassis0uuid UNIQUE (uuid)
);
INSERT INTO "chassis" VALUES(1,'00000000-0000-4000-8000-000000000001','{"row": 3}','rack 1',NULL,'2026-11-27 00:32:42.929149',NULL);
CREATE TABLE conductor_hardware_interfaces (
	id INTEGER NOT NULL, 
	conductor_id INTEGER NOT NULL, 
	hardware_type VARCHAR(255) NOT NULL, 
	interface_type VARCHAR(16) NOT NULL, 
	interface_name VARCHAR(255) NOT NULL, 
	"default" BOOLEAN NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_conductorhardwareinterfaces0 UNIQUE (conductor_id, hardware_type, interface_type, interface_name), 
	FOREIGN KEY(conductor_id) REFERENCES conductors (id)
);
CREATE TABLE conductors (
	id INTEGER NOT NULL, 
	hostname VARCHAR(255) NOT NULL, 
	drivers TEXT, 
	online BOOLEAN, 
	conductor_group VARCHAR(255) DEFAULT '' NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_conductors0hostname UNIQUE (hostname)
);
INSERT INTO "conductors" VALUES(1,'rack-1','["fake-hardware"]',0,'',NULL,'2026-11-27 00:32:46.024933','2026-11-27 00:32:46.048892');
CREATE TABLE deploy_template_steps (
	id INTEGER NOT NULL, 
	deploy_template_id INTEGER NOT NULL, 
	interface VARCHAR(255) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	args TEXT NOT NULL, 
	priority INTEGER NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(deploy_template_id) REFERENCES deploy_templates (id)
);
INSERT INTO "deploy_template_steps" VALUES(1,1,'bios','apply_configuration','{"settings": []}',90,NULL,'2026-11-27 00:32:45.941851',NULL);
CREATE TABLE deploy_templates (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255) NOT NULL, 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_deploytemplates0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_deploytemplates0name UNIQUE (name)
);
INSERT INTO "deploy_templates" VALUES(1,'00000000-0000-4000-8000-000000000002','CUSTOM_RAID','{"of": "us"}','1.1','2026-11-27 00:32:45.937070',NULL);
CREATE TABLE firmware_information (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	component VARCHAR(255) NOT NULL, 
	initial_version VARCHAR(255) NOT NULL, 
	current_version VARCHAR(255), 
	last_version_flashed VARCHAR(255), 
	vendor VARCHAR(255), 
	model VARCHAR(255), 
	serial_number VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_nodecomponent0node_id0component UNIQUE (node_id, component), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "firmware_information" VALUES(1,1,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:43.128834',NULL);
INSERT INTO "firmware_information" VALUES(2,2,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:43.366242',NULL);
INSERT INTO "firmware_information" VALUES(3,3,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:43.594201',NULL);
INSERT INTO "firmware_information" VALUES(4,4,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:43.746201',NULL);
INSERT INTO "firmware_information" VALUES(5,5,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.025907',NULL);
INSERT INTO "firmware_information" VALUES(6,6,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.151743',NULL);
INSERT INTO "firmware_information" VALUES(7,7,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.297008',NULL);
INSERT INTO "firmware_information" VALUES(8,8,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.458330',NULL);
INSERT INTO "firmware_information" VALUES(9,9,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.659760',NULL);
INSERT INTO "firmware_information" VALUES(10,10,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.828883',NULL);
INSERT INTO "firmware_information" VALUES(11,11,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:44.985267',NULL);
INSERT INTO "firmware_information" VALUES(12,12,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:45.165919',NULL);
INSERT INTO "firmware_information" VALUES(13,13,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:45.370306',NULL);
INSERT INTO "firmware_information" VALUES(14,14,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:45.615951',NULL);
INSERT INTO "firmware_information" VALUES(15,15,'bios','1.0','1.1',NULL,NULL,NULL,NULL,NULL,'2026-11-27 00:32:45.850109',NULL);
CREATE TABLE inspection_rules (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	priority INTEGER NOT NULL, 
	description VARCHAR(255), 
	scope VARCHAR(255), 
	sensitive BOOLEAN, 
	phase VARCHAR(16), 
	conditions TEXT, 
	actions TEXT NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_inspection_rules0uuid UNIQUE (uuid)
);
INSERT INTO "inspection_rules" VALUES(1,'00000000-0000-4000-8000-000000000004',10,'name by serial',NULL,0,'main','[{"op": "is-empty", "args": {"value": "{node.name}"}}]','[{"op": "set-attribute", "args": {"path": "/description", "value": "new"}}]',NULL,'2026-11-27 00:32:45.977020',NULL);
CREATE TABLE node_history (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	conductor VARCHAR(255), 
	event_type VARCHAR(255), 
	severity VARCHAR(255), 
	event TEXT, 
	user VARCHAR(64), 
	project VARCHAR(80), 
	node_id INTEGER, 
	state VARCHAR(255), 
	target_provision_state VARCHAR(255), 
	duration_seconds INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_history0uuid UNIQUE (uuid), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_history" VALUES(1,'4f30b02d-572c-4b8d-bf7d-6a56aabea917','rack-1','provisioning','ERROR','it broke','u-1','project-1',1,'enroll',NULL,NULL,NULL,'2026-11-27 00:32:43.174982',NULL);
INSERT INTO "node_history" VALUES(2,'4f0437cf-3437-4f07-8e19-a4923efc711e','rack-1','provisioning','ERROR','it broke','u-1','project-1',2,'manageable',NULL,NULL,NULL,'2026-11-27 00:32:43.414130',NULL);
INSERT INTO "node_history" VALUES(3,'134d7a72-e4d6-4139-9259-d66172d10823','rack-1','provisioning','ERROR','it broke','u-1','project-1',3,'available',NULL,NULL,NULL,'2026-11-27 00:32:43.609959',NULL);
INSERT INTO "node_history" VALUES(4,'4ece8049-69cb-46bd-ade7-c5e72e86b3ca','rack-1','provisioning','ERROR','it broke','u-1','project-1',4,'active',NULL,NULL,NULL,'2026-11-27 00:32:43.791185',NULL);
INSERT INTO "node_history" VALUES(5,'074e2c47-6077-418c-a21e-d442fa298e35','rack-1','provisioning','ERROR','it broke','u-1','project-1',5,'rescue',NULL,NULL,NULL,'2026-11-27 00:32:44.050824',NULL);
INSERT INTO "node_history" VALUES(6,'a3741c09-4115-49a4-bc41-0f4164993a6e','rack-1','provisioning','ERROR','it broke','u-1','project-1',6,'error',NULL,NULL,NULL,'2026-11-27 00:32:44.173958',NULL);
INSERT INTO "node_history" VALUES(7,'86aa9bfd-f6f4-4a02-9a67-36cf95cafd64','rack-1','provisioning','ERROR','it broke','u-1','project-1',7,'deploy failed',NULL,NULL,NULL,'2026-11-27 00:32:44.330142',NULL);
INSERT INTO "node_history" VALUES(8,'a69b95b6-e291-4bd6-9eac-69a9ee1bfafb','rack-1','provisioning','ERROR','it broke','u-1','project-1',8,'clean failed',NULL,NULL,NULL,'2026-11-27 00:32:44.498263',NULL);
INSERT INTO "node_history" VALUES(9,'a809e073-c1f6-4ccc-8ed5-3879513cb473','rack-1','provisioning','ERROR','it broke','u-1','project-1',9,'inspect failed',NULL,NULL,NULL,'2026-11-27 00:32:44.689613',NULL);
INSERT INTO "node_history" VALUES(10,'f6e4e8c4-e978-4712-98c3-a17db54adbed','rack-1','provisioning','ERROR','it broke','u-1','project-1',10,'rescue failed',NULL,NULL,NULL,'2026-11-27 00:32:44.866235',NULL);
INSERT INTO "node_history" VALUES(11,'213eb9b5-154a-4e54-a36c-ca1205ae35fb','rack-1','provisioning','ERROR','it broke','u-1','project-1',11,'unrescue failed',NULL,NULL,NULL,'2026-11-27 00:32:45.005881',NULL);
INSERT INTO "node_history" VALUES(12,'b2e7145c-e14c-48c9-b10c-a491ebc3c0b8','rack-1','provisioning','ERROR','it broke','u-1','project-1',12,'adopt failed',NULL,NULL,NULL,'2026-11-27 00:32:45.205242',NULL);
INSERT INTO "node_history" VALUES(13,'a5de01b5-0f0b-404c-a3f8-4a723d5f33dc','rack-1','provisioning','ERROR','it broke','u-1','project-1',13,'service failed',NULL,NULL,NULL,'2026-11-27 00:32:45.411466',NULL);
INSERT INTO "node_history" VALUES(14,'b7079ba4-6760-4b01-87ec-aad127708f26','rack-1','provisioning','ERROR','it broke','u-1','project-1',14,'clean wait',NULL,NULL,NULL,'2026-11-27 00:32:45.658278',NULL);
INSERT INTO "node_history" VALUES(15,'39ec1c7d-bc7a-4b52-a990-17c74ecc7056','rack-1','provisioning','ERROR','it broke','u-1','project-1',15,'wait call-back',NULL,NULL,NULL,'2026-11-27 00:32:45.915523',NULL);
CREATE TABLE node_inventory (
	id INTEGER NOT NULL, 
	inventory_data TEXT, 
	plugin_data TEXT, 
	node_id INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_inventory" VALUES(1,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',1,'1.0','2026-11-27 00:32:43.150284',NULL);
INSERT INTO "node_inventory" VALUES(2,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',2,'1.0','2026-11-27 00:32:43.391099',NULL);
INSERT INTO "node_inventory" VALUES(3,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',3,'1.0','2026-11-27 00:32:43.601503',NULL);
INSERT INTO "node_inventory" VALUES(4,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',4,'1.0','2026-11-27 00:32:43.775101',NULL);
INSERT INTO "node_inventory" VALUES(5,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',5,'1.0','2026-11-27 00:32:44.034966',NULL);
INSERT INTO "node_inventory" VALUES(6,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',6,'1.0','2026-11-27 00:32:44.165536',NULL);
INSERT INTO "node_inventory" VALUES(7,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',7,'1.0','2026-11-27 00:32:44.315316',NULL);
INSERT INTO "node_inventory" VALUES(8,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',8,'1.0','2026-11-27 00:32:44.475282',NULL);
INSERT INTO "node_inventory" VALUES(9,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',9,'1.0','2026-11-27 00:32:44.677982',NULL);
INSERT INTO "node_inventory" VALUES(10,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',10,'1.0','2026-11-27 00:32:44.848045',NULL);
INSERT INTO "node_inventory" VALUES(11,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',11,'1.0','2026-11-27 00:32:44.995888',NULL);
INSERT INTO "node_inventory" VALUES(12,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',12,'1.0','2026-11-27 00:32:45.187035',NULL);
INSERT INTO "node_inventory" VALUES(13,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',13,'1.0','2026-11-27 00:32:45.394157',NULL);
INSERT INTO "node_inventory" VALUES(14,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',14,'1.0','2026-11-27 00:32:45.639115',NULL);
INSERT INTO "node_inventory" VALUES(15,'{"memory": {"physical_mb": 65536}}','{"valid_macs": []}',15,'1.0','2026-11-27 00:32:45.860708',NULL);
CREATE TABLE node_tags (
	node_id INTEGER NOT NULL, 
	tag VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, tag), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
CREATE TABLE node_traits (
	node_id INTEGER NOT NULL, 
	trait VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, trait), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_traits" VALUES(1,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:43.079968',NULL);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_GPU','1.0','2026-11-27 00:32:43.079982',NULL);
INSERT INTO "node_traits" VALUES(2,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:43.320803',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_GPU','1.0','2026-11-27 00:32:43.320816',NULL);
INSERT INTO "node_traits" VALUES(3,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:43.555921',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_GPU','1.0','2026-11-27 00:32:43.555934',NULL);
INSERT INTO "node_traits" VALUES(4,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:43.696667',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_GPU','1.0','2026-11-27 00:32:43.696680',NULL);
INSERT INTO "node_traits" VALUES(5,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:43.998301',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_GPU','1.0','2026-11-27 00:32:43.998314',NULL);
INSERT INTO "node_traits" VALUES(6,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:44.132741',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_GPU','1.0','2026-11-27 00:32:44.132753',NULL);
INSERT INTO "node_traits" VALUES(7,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:44.261015',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_GPU','1.0','2026-11-27 00:32:44.261027',NULL);
INSERT INTO "node_traits" VALUES(8,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:44.419756',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_GPU','1.0','2026-11-27 00:32:44.419767',NULL);
INSERT INTO "node_traits" VALUES(9,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:44.623065',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_GPU','1.0','2026-11-27 00:32:44.623076',NULL);
INSERT INTO "node_traits" VALUES(10,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:44.790335',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_GPU','1.0','2026-11-27 00:32:44.790346',NULL);
INSERT INTO "node_traits" VALUES(11,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:44.962094',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_GPU','1.0','2026-11-27 00:32:44.962106',NULL);
INSERT INTO "node_traits" VALUES(12,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:45.129573',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_GPU','1.0','2026-11-27 00:32:45.129585',NULL);
INSERT INTO "node_traits" VALUES(13,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:45.328923',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_GPU','1.0','2026-11-27 00:32:45.328936',NULL);
INSERT INTO "node_traits" VALUES(14,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:45.558971',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_GPU','1.0','2026-11-27 00:32:45.558990',NULL);
INSERT INTO "node_traits" VALUES(15,'HW_CPU_X86_VMX','1.0','2026-11-27 00:32:45.799393',NULL);
INSERT INTO "node_traits" VALUES(15,'CUSTOM_GPU','1.0','2026-11-27 00:32:45.799407',NULL);
CREATE TABLE nodes (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	instance_uuid VARCHAR(36), 
	instance_name VARCHAR(255), 
	name VARCHAR(255), 
	chassis_id INTEGER, 
	power_state VARCHAR(15), 
	target_power_state VARCHAR(15), 
	provision_state VARCHAR(15), 
	target_provision_state VARCHAR(15), 
	provision_updated_at DATETIME, 
	last_error TEXT, 
	instance_info TEXT, 
	properties TEXT, 
	driver VARCHAR(255), 
	driver_info TEXT, 
	driver_internal_info TEXT, 
	clean_step TEXT, 
	deploy_step TEXT, 
	resource_class VARCHAR(80), 
	raid_config TEXT, 
	target_raid_config TEXT, 
	reservation VARCHAR(255), 
	conductor_affinity INTEGER, 
	conductor_group VARCHAR(255) DEFAULT '' NOT NULL, 
	maintenance BOOLEAN, 
	maintenance_reason TEXT, 
	fault VARCHAR(255), 
	console_enabled BOOLEAN, 
	inspection_finished_at DATETIME, 
	inspection_started_at DATETIME, 
	extra TEXT, 
	automated_clean BOOLEAN, 
	protected BOOLEAN DEFAULT 0 NOT NULL, 
	protected_reason TEXT, 
	owner VARCHAR(255), 
	lessee VARCHAR(255), 
	allocation_id INTEGER, 
	description TEXT, 
	bios_interface VARCHAR(255), 
	boot_interface VARCHAR(255), 
	console_interface VARCHAR(255), 
	deploy_interface VARCHAR(255), 
	firmware_interface VARCHAR(255), 
	inspect_interface VARCHAR(255), 
	management_interface VARCHAR(255), 
	network_interface VARCHAR(255), 
	raid_interface VARCHAR(255), 
	rescue_interface VARCHAR(255), 
	retired BOOLEAN DEFAULT 0, 
	retired_reason TEXT, 
	network_data TEXT, 
	storage_interface VARCHAR(255), 
	power_interface VARCHAR(255), 
	vendor_interface VARCHAR(255), 
	boot_mode VARCHAR(16), 
	secure_boot BOOLEAN, 
	shard VARCHAR(255), 
	parent_node VARCHAR(36), 
	service_step TEXT, 
	disable_power_off BOOLEAN DEFAULT 0, 
	health VARCHAR(32), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_nodes0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_nodes0instance_uuid UNIQUE (instance_uuid), 
	CONSTRAINT uniq_nodes0name UNIQUE (name), 
	FOREIGN KEY(chassis_id) REFERENCES chassis (id), 
	CONSTRAINT nodes_conductor_affinity_fk FOREIGN KEY(conductor_affinity) REFERENCES conductors (id), 
	FOREIGN KEY(allocation_id) REFERENCES allocations (id)
);
INSERT INTO "nodes" VALUES(1,'00000000-0000-4000-8000-000000000100',NULL,NULL,'node-100',1,'power on',NULL,'enroll',NULL,'2026-03-01 10:00:00.000000',NULL,'{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-100"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A100"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:42.972877',NULL);
INSERT INTO "nodes" VALUES(2,'00000000-0000-4000-8000-000000000101',NULL,NULL,'node-101',1,'power on',NULL,'manageable',NULL,'2026-03-01 10:00:00.000000',NULL,'{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-101"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A101"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:43.199609',NULL);
INSERT INTO "nodes" VALUES(3,'00000000-0000-4000-8000-000000000102',NULL,NULL,'node-102',1,'power on',NULL,'available',NULL,'2026-03-01 10:00:00.000000',NULL,'{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-102"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A102"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:43.434729',NULL);
INSERT INTO "nodes" VALUES(4,'00000000-0000-4000-8000-000000000103','00000000-0000-4000-8000-000000000203',NULL,'node-103',1,'power on',NULL,'active',NULL,'2026-03-01 10:00:00.000000',NULL,'{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab", "traits": ["CUSTOM_GPU"]}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-103"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A103"}',0,0,NULL,'project-1','project-2',1,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:43.624422','2026-11-27 00:32:43.909171');
INSERT INTO "nodes" VALUES(5,'00000000-0000-4000-8000-000000000104','00000000-0000-4000-8000-000000000204',NULL,'node-104',1,'power on',NULL,'rescue',NULL,'2026-03-01 10:00:00.000000',NULL,'{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-104"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A104"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:43.933280',NULL);
INSERT INTO "nodes" VALUES(6,'00000000-0000-4000-8000-000000000105',NULL,NULL,'node-105',1,'power on',NULL,'error',NULL,'2026-03-01 10:00:00.000000',NULL,'{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-105"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A105"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:44.062634',NULL);
INSERT INTO "nodes" VALUES(7,'00000000-0000-4000-8000-000000000106',NULL,NULL,'node-106',1,'power on',NULL,'deploy failed','active','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-106"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A106"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:44.190364',NULL);
INSERT INTO "nodes" VALUES(8,'00000000-0000-4000-8000-000000000107',NULL,NULL,'node-107',1,'power on',NULL,'clean failed','available','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-107"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',1,'cleaning failed','clean failure',0,NULL,NULL,'{"asset": "A107"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:44.348108',NULL);
INSERT INTO "nodes" VALUES(9,'00000000-0000-4000-8000-000000000108',NULL,NULL,'node-108',1,'power on',NULL,'inspect failed','manageable','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-108"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A108"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:44.513162',NULL);
INSERT INTO "nodes" VALUES(10,'00000000-0000-4000-8000-000000000109',NULL,NULL,'node-109',1,'power on',NULL,'rescue failed','rescue','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-109"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A109"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:44.705724',NULL);
INSERT INTO "nodes" VALUES(11,'00000000-0000-4000-8000-000000000110',NULL,NULL,'node-110',1,'power on',NULL,'unrescue failed','active','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-110"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A110"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:44.874936',NULL);
INSERT INTO "nodes" VALUES(12,'00000000-0000-4000-8000-000000000111',NULL,NULL,'node-111',1,'power on',NULL,'adopt failed','active','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-111"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A111"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:45.014211',NULL);
INSERT INTO "nodes" VALUES(13,'00000000-0000-4000-8000-000000000112',NULL,NULL,'node-112',1,'power on',NULL,'service failed','active','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-112"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A112"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:45.226699',NULL);
INSERT INTO "nodes" VALUES(14,'00000000-0000-4000-8000-000000000113',NULL,NULL,'node-113',1,'power on',NULL,'clean wait','available','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-113"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A113"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:45.438712',NULL);
INSERT INTO "nodes" VALUES(15,'00000000-0000-4000-8000-000000000114',NULL,NULL,'node-114',1,'power on',NULL,'wait call-back','active','2026-03-01 10:00:00.000000','it broke','{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": "ab"}','{"cpus": 8, "memory_mb": 65536, "capabilities": "boot_mode:uefi"}','fake-hardware','{"address": "198.51.100.7", "fake_password": "pass-114"}','{"agent_url": "https://192.0.2.9:9999", "agent_secret_token": "agent''s", "is_whole_disk_image": true, "last_power_state_change": "2026-03-01T00:00:00.000000", "clean_steps": null}','{}','{}','baremetal','{}','{}',NULL,NULL,'rack1',0,NULL,NULL,0,NULL,NULL,'{"asset": "A114"}',0,0,NULL,'project-1','project-2',NULL,'the machine','no-bios','fake','fake','fake','no-firmware','no-inspect','fake','noop','no-raid','no-rescue',0,NULL,'{}','noop','fake','no-vendor',NULL,NULL,'blue',NULL,'{}',0,NULL,NULL,'2026-11-27 00:32:45.685451',NULL);
CREATE TABLE portgroups (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255), 
	node_id INTEGER, 
	address VARCHAR(18), 
	extra TEXT, 
	internal_info TEXT, 
	standalone_ports_supported BOOLEAN, 
	mode VARCHAR(255), 
	properties TEXT, 
	physical_network VARCHAR(64), 
	category VARCHAR(80), 
	dynamic_portgroup BOOLEAN, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_portgroups0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_portgroups0address UNIQUE (address), 
	CONSTRAINT uniq_portgroups0name UNIQUE (name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "portgroups" VALUES(1,'00000000-0000-4000-8000-000000001100','bond-100',1,'52:54:00:00:01:00','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:42.990972',NULL);
INSERT INTO "portgroups" VALUES(2,'00000000-0000-4000-8000-000000001101','bond-101',2,'52:54:00:00:01:01','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:43.223670',NULL);
INSERT INTO "portgroups" VALUES(3,'00000000-0000-4000-8000-000000001102','bond-102',3,'52:54:00:00:01:02','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:43.458199',NULL);
INSERT INTO "portgroups" VALUES(4,'00000000-0000-4000-8000-000000001103','bond-103',4,'52:54:00:00:01:03','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:43.639356',NULL);
INSERT INTO "portgroups" VALUES(5,'00000000-0000-4000-8000-000000001104','bond-104',5,'52:54:00:00:01:04','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:43.943231',NULL);
INSERT INTO "portgroups" VALUES(6,'00000000-0000-4000-8000-000000001105','bond-105',6,'52:54:00:00:01:05','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:44.079551',NULL);
INSERT INTO "portgroups" VALUES(7,'00000000-0000-4000-8000-000000001106','bond-106',7,'52:54:00:00:01:06','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:44.203713',NULL);
INSERT INTO "portgroups" VALUES(8,'00000000-0000-4000-8000-000000001107','bond-107',8,'52:54:00:00:01:07','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:44.368377',NULL);
INSERT INTO "portgroups" VALUES(9,'00000000-0000-4000-8000-000000001108','bond-108',9,'52:54:00:00:01:08','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:44.530259',NULL);
INSERT INTO "portgroups" VALUES(10,'00000000-0000-4000-8000-000000001109','bond-109',10,'52:54:00:00:01:09','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:44.717196',NULL);
INSERT INTO "portgroups" VALUES(11,'00000000-0000-4000-8000-000000001110','bond-110',11,'52:54:00:00:01:0a','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:44.898698',NULL);
INSERT INTO "portgroups" VALUES(12,'00000000-0000-4000-8000-000000001111','bond-111',12,'52:54:00:00:01:0b','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:45.030377',NULL);
INSERT INTO "portgroups" VALUES(13,'00000000-0000-4000-8000-000000001112','bond-112',13,'52:54:00:00:01:0c','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:45.244560',NULL);
INSERT INTO "portgroups" VALUES(14,'00000000-0000-4000-8000-000000001113','bond-113',14,'52:54:00:00:01:0d','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:45.462236',NULL);
INSERT INTO "portgroups" VALUES(15,'00000000-0000-4000-8000-000000001114','bond-114',15,'52:54:00:00:01:0e','{}','{}',1,'802.3ad','{"xmit_hash_policy": "layer3+4"}',NULL,NULL,0,NULL,'2026-11-27 00:32:45.710540',NULL);
CREATE TABLE ports (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	address VARCHAR(18), 
	node_id INTEGER, 
	extra TEXT, 
	local_link_connection TEXT, 
	portgroup_id INTEGER, 
	pxe_enabled BOOLEAN, 
	internal_info TEXT, 
	physical_network VARCHAR(64), 
	is_smartnic BOOLEAN, 
	name VARCHAR(255), 
	description VARCHAR(255), 
	vendor VARCHAR(32), 
	category VARCHAR(80), 
	available_for_dynamic_portgroup BOOLEAN DEFAULT 1 NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_ports0address UNIQUE (address), 
	CONSTRAINT uniq_ports0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_ports0name UNIQUE (name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id), 
	FOREIGN KEY(portgroup_id) REFERENCES portgroups (id)
);
INSERT INTO "ports" VALUES(1,'00000000-0000-4000-8000-000000002100','52:54:00:00:00:00',1,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',1,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:43.007627',NULL);
INSERT INTO "ports" VALUES(2,'00000000-0000-4000-8000-000000002101','52:54:00:00:00:01',2,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',2,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:43.247112',NULL);
INSERT INTO "ports" VALUES(3,'00000000-0000-4000-8000-000000002102','52:54:00:00:00:02',3,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',3,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:43.482054',NULL);
INSERT INTO "ports" VALUES(4,'00000000-0000-4000-8000-000000002103','52:54:00:00:00:03',4,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',4,1,'{"tenant_vif_port_id": "00000000-0000-4000-8000-000000003103"}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:43.651927',NULL);
INSERT INTO "ports" VALUES(5,'00000000-0000-4000-8000-000000002104','52:54:00:00:00:04',5,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',5,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:43.966241',NULL);
INSERT INTO "ports" VALUES(6,'00000000-0000-4000-8000-000000002105','52:54:00:00:00:05',6,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',6,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:44.090229',NULL);
INSERT INTO "ports" VALUES(7,'00000000-0000-4000-8000-000000002106','52:54:00:00:00:06',7,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',7,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:44.214449',NULL);
INSERT INTO "ports" VALUES(8,'00000000-0000-4000-8000-000000002107','52:54:00:00:00:07',8,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',8,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:44.378248',NULL);
INSERT INTO "ports" VALUES(9,'00000000-0000-4000-8000-000000002108','52:54:00:00:00:08',9,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',9,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:44.554478',NULL);
INSERT INTO "ports" VALUES(10,'00000000-0000-4000-8000-000000002109','52:54:00:00:00:09',10,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',10,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:44.734274',NULL);
INSERT INTO "ports" VALUES(11,'00000000-0000-4000-8000-000000002110','52:54:00:00:00:0a',11,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',11,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:44.913966',NULL);
INSERT INTO "ports" VALUES(12,'00000000-0000-4000-8000-000000002111','52:54:00:00:00:0b',12,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',12,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:45.050243',NULL);
INSERT INTO "ports" VALUES(13,'00000000-0000-4000-8000-000000002112','52:54:00:00:00:0c',13,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',13,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:45.264168',NULL);
INSERT INTO "ports" VALUES(14,'00000000-0000-4000-8000-000000002113','52:54:00:00:00:0d',14,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',14,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:45.486987',NULL);
INSERT INTO "ports" VALUES(15,'00000000-0000-4000-8000-000000002114','52:54:00:00:00:0e',15,'{}','{"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "eth1"}',15,1,'{}','physnet1',0,NULL,NULL,NULL,NULL,1,NULL,'2026-11-27 00:32:45.742404',NULL);
CREATE TABLE runbook_steps (
	id INTEGER NOT NULL, 
	runbook_id INTEGER NOT NULL, 
	interface VARCHAR(255) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	args TEXT NOT NULL, 
	"order" INTEGER NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(runbook_id) REFERENCES runbooks (id)
);
INSERT INTO "runbook_steps" VALUES(1,1,'bios','apply_configuration','{"settings": []}',1,NULL,'2026-11-27 00:32:45.954038',NULL);
CREATE TABLE runbook_traits (
	runbook_id INTEGER NOT NULL, 
	trait VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (runbook_id, trait), 
	FOREIGN KEY(runbook_id) REFERENCES runbooks (id)
);
INSERT INTO "runbook_traits" VALUES(1,'CUSTOM_GPU',NULL,'2026-11-27 00:32:45.955203',NULL);
CREATE TABLE runbooks (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255) NOT NULL, 
	description VARCHAR(255), 
	public BOOLEAN, 
	owner VARCHAR(255), 
	disable_ramdisk BOOLEAN, 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_runbooks0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_runbooks0name UNIQUE (name)
);
INSERT INTO "runbooks" VALUES(1,'00000000-0000-4000-8000-000000000003','CUSTOM_BURN_IN','for a night',0,'project-1',1,'{}','1.1','2026-11-27 00:32:45.951253',NULL);
CREATE TABLE volume_connectors (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	node_id INTEGER, 
	type VARCHAR(32), 
	connector_id VARCHAR(255), 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_volumeconnectors0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_volumeconnectors0type0connector_id UNIQUE (type, connector_id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "volume_connectors" VALUES(1,'00000000-0000-4000-8000-000000004100',1,'iqn','iqn.2026-03.org.example:100','{}',NULL,'2026-11-27 00:32:43.027983',NULL);
INSERT INTO "volume_connectors" VALUES(2,'00000000-0000-4000-8000-000000004101',2,'iqn','iqn.2026-03.org.example:101','{}',NULL,'2026-11-27 00:32:43.274173',NULL);
INSERT INTO "volume_connectors" VALUES(3,'00000000-0000-4000-8000-000000004102',3,'iqn','iqn.2026-03.org.example:102','{}',NULL,'2026-11-27 00:32:43.513019',NULL);
INSERT INTO "volume_connectors" VALUES(4,'00000000-0000-4000-8000-000000004103',4,'iqn','iqn.2026-03.org.example:103','{}',NULL,'2026-11-27 00:32:43.662124',NULL);
INSERT INTO "volume_connectors" VALUES(5,'00000000-0000-4000-8000-000000004104',5,'iqn','iqn.2026-03.org.example:104','{}',NULL,'2026-11-27 00:32:43.973501',NULL);
INSERT INTO "volume_connectors" VALUES(6,'00000000-0000-4000-8000-000000004105',6,'iqn','iqn.2026-03.org.example:105','{}',NULL,'2026-11-27 00:32:44.101876',NULL);
INSERT INTO "volume_connectors" VALUES(7,'00000000-0000-4000-8000-000000004106',7,'iqn','iqn.2026-03.org.example:106','{}',NULL,'2026-11-27 00:32:44.225615',NULL);
INSERT INTO "volume_connectors" VALUES(8,'00000000-0000-4000-8000-000000004107',8,'iqn','iqn.2026-03.org.example:107','{}',NULL,'2026-11-27 00:32:44.390022',NULL);
INSERT INTO "volume_connectors" VALUES(9,'00000000-0000-4000-8000-000000004108',9,'iqn','iqn.2026-03.org.example:108','{}',NULL,'2026-11-27 00:32:44.582929',NULL);
INSERT INTO "volume_connectors" VALUES(10,'00000000-0000-4000-8000-000000004109',10,'iqn','iqn.2026-03.org.example:109','{}',NULL,'2026-11-27 00:32:44.745057',NULL);
INSERT INTO "volume_connectors" VALUES(11,'00000000-0000-4000-8000-000000004110',11,'iqn','iqn.2026-03.org.example:110','{}',NULL,'2026-11-27 00:32:44.927582',NULL);
INSERT INTO "volume_connectors" VALUES(12,'00000000-0000-4000-8000-000000004111',12,'iqn','iqn.2026-03.org.example:111','{}',NULL,'2026-11-27 00:32:45.066098',NULL);
INSERT INTO "volume_connectors" VALUES(13,'00000000-0000-4000-8000-000000004112',13,'iqn','iqn.2026-03.org.example:112','{}',NULL,'2026-11-27 00:32:45.284220',NULL);
INSERT INTO "volume_connectors" VALUES(14,'00000000-0000-4000-8000-000000004113',14,'iqn','iqn.2026-03.org.example:113','{}',NULL,'2026-11-27 00:32:45.505295',NULL);
INSERT INTO "volume_connectors" VALUES(15,'00000000-0000-4000-8000-000000004114',15,'iqn','iqn.2026-03.org.example:114','{}',NULL,'2026-11-27 00:32:45.761321',NULL);
CREATE TABLE volume_targets (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	node_id INTEGER, 
	volume_type VARCHAR(64), 
	properties TEXT, 
	boot_index INTEGER, 
	volume_id VARCHAR(36), 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_volumetargets0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_volumetargets0node_id0boot_index UNIQUE (node_id, boot_index), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "volume_targets" VALUES(1,'00000000-0000-4000-8000-000000005100',1,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006100','{}',NULL,'2026-11-27 00:32:43.042713',NULL);
INSERT INTO "volume_targets" VALUES(2,'00000000-0000-4000-8000-000000005101',2,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006101','{}',NULL,'2026-11-27 00:32:43.294028',NULL);
INSERT INTO "volume_targets" VALUES(3,'00000000-0000-4000-8000-000000005102',3,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006102','{}',NULL,'2026-11-27 00:32:43.543393',NULL);
INSERT INTO "volume_targets" VALUES(4,'00000000-0000-4000-8000-000000005103',4,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006103','{}',NULL,'2026-11-27 00:32:43.670848',NULL);
INSERT INTO "volume_targets" VALUES(5,'00000000-0000-4000-8000-000000005104',5,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006104','{}',NULL,'2026-11-27 00:32:43.981467',NULL);
INSERT INTO "volume_targets" VALUES(6,'00000000-0000-4000-8000-000000005105',6,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006105','{}',NULL,'2026-11-27 00:32:44.117130',NULL);
INSERT INTO "volume_targets" VALUES(7,'00000000-0000-4000-8000-000000005106',7,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006106','{}',NULL,'2026-11-27 00:32:44.243838',NULL);
INSERT INTO "volume_targets" VALUES(8,'00000000-0000-4000-8000-000000005107',8,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006107','{}',NULL,'2026-11-27 00:32:44.401381',NULL);
INSERT INTO "volume_targets" VALUES(9,'00000000-0000-4000-8000-000000005108',9,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006108','{}',NULL,'2026-11-27 00:32:44.602171',NULL);
INSERT INTO "volume_targets" VALUES(10,'00000000-0000-4000-8000-000000005109',10,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006109','{}',NULL,'2026-11-27 00:32:44.766140',NULL);
INSERT INTO "volume_targets" VALUES(11,'00000000-0000-4000-8000-000000005110',11,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006110','{}',NULL,'2026-11-27 00:32:44.946039',NULL);
INSERT INTO "volume_targets" VALUES(12,'00000000-0000-4000-8000-000000005111',12,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006111','{}',NULL,'2026-11-27 00:32:45.097808',NULL);
INSERT INTO "volume_targets" VALUES(13,'00000000-0000-4000-8000-000000005112',13,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006112','{}',NULL,'2026-11-27 00:32:45.302029',NULL);
INSERT INTO "volume_targets" VALUES(14,'00000000-0000-4000-8000-000000005113',14,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006113','{}',NULL,'2026-11-27 00:32:45.527347',NULL);
INSERT INTO "volume_targets" VALUES(15,'00000000-0000-4000-8000-000000005114',15,'iscsi','{"target_portal": "192.0.2.3:3260", "auth_password": "volume''s"}',0,'00000000-0000-4000-8000-000000006114','{}',NULL,'2026-11-27 00:32:45.778144',NULL);
CREATE INDEX inspection_rule_phase_idx ON inspection_rules (phase);
CREATE INDEX inspection_rule_scope_idx ON inspection_rules (scope);
CREATE INDEX lessee_idx ON nodes (lessee);
CREATE INDEX provision_state_idx ON nodes (provision_state);
CREATE INDEX conductor_group_idx ON nodes (conductor_group);
CREATE INDEX reservation_idx ON nodes (reservation);
CREATE INDEX driver_idx ON nodes (driver);
CREATE INDEX resource_class_idx ON nodes (resource_class);
CREATE INDEX shard_idx ON nodes (shard);
CREATE INDEX parent_node_idx ON nodes (parent_node);
CREATE INDEX owner_idx ON nodes (owner);
CREATE INDEX deploy_template_id ON deploy_template_steps (deploy_template_id);
CREATE INDEX deploy_template_steps_interface_idx ON deploy_template_steps (interface);
CREATE INDEX deploy_template_steps_step_idx ON deploy_template_steps (step);
CREATE INDEX runbook_steps_step_idx ON runbook_steps (step);
CREATE INDEX runbook_id ON runbook_steps (runbook_id);
CREATE INDEX runbook_steps_interface_idx ON runbook_steps (interface);
CREATE INDEX runbook_traits_idx ON runbook_traits (trait);
CREATE INDEX node_tags_idx ON node_tags (tag);
CREATE INDEX node_traits_idx ON node_traits (trait);
CREATE INDEX history_uuid_idx ON node_history (uuid);
CREATE INDEX history_node_id_idx ON node_history (node_id);
CREATE INDEX history_conductor_idx ON node_history (conductor);
CREATE INDEX inventory_node_id_idx ON node_inventory (node_id);
COMMIT;
