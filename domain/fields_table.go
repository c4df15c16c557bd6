package domain

// A handling says which component handles a field of a VMI's spec.
type handling string

// Only fields of the first two kinds become a part of the domain. A pod cannot provide notInPod and
// rejectedInPod, and unsupported fields are always rejected.
const (
	inDomain      handling = "domain"
	notInPod      handling = "domain, not in a pod"
	rejectedInPod handling = "not in a pod"
	inPod         handling = "pod"
	inLauncher    handling = "launcher"
	inController  handling = "controller"
	atAdmission   handling = "admission"
	unsupported   handling = "unsupported"
)

// A fieldGroup lists fields below a parent that are handled alike. The names are separated by
// spaces. note says why the fields are rejected, or how they are handled.
type fieldGroup struct {
	parent, names string
	by            handling
	note          string
}

const (
	claimsRejected   = "device claims are not supported; use a device plugin's deviceName"
	imageContent     = "content of an image that the launcher makes"
	metricsRejected  = "metrics of the host are not served to guests"
	networkRejected  = "only the pod network is supported"
	securityRejected = "a pod has no access to the host's memory encryption"
	thePod           = "the pod"

	probeFields = "exec failureThreshold guestAgentPing httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket timeoutSeconds"
)

// fieldGroups lists every field of a VMI's spec once. Kubernetes' own types count as one field.
var fieldGroups = []fieldGroup{
	{"spec", "architecture", inDomain, ""},
	{"spec", "startStrategy", inDomain, "a boot menu; the launcher starts paused"},
	{"spec", "affinity nodeSelector schedulerName tolerations[] topologySpreadConstraints[]", inPod, "scheduling"},
	{"spec", "dnsConfig dnsPolicy priorityClassName serviceAccountName", inPod, thePod},
	{"spec", "subdomain", inPod, "DNS"},
	{"spec", "evictionStrategy", inController, "how a node is drained"},
	{"spec", "hostname", inLauncher, "host name of the pod, cloud-init metadata, DHCP"},
	{"spec", "terminationGracePeriodSeconds", inLauncher, "grace period of the pod and of the guest"},
	{"spec.livenessProbe", probeFields, inPod, "a probe of the container"},
	{"spec.readinessProbe", probeFields, inPod, "a probe of the container"},
	{"spec", "utilityVolumes[] utilityVolumes[].name utilityVolumes[].type", unsupported, "utility volumes serve backups, which KubeVirt itself makes"},
	{"spec.resourceClaims[]", "name resourceClaimName resourceClaimTemplateName", rejectedInPod, claimsRejected},
	{"spec.accessCredentials[]", "sshPublicKey.propagationMethod.configDrive sshPublicKey.propagationMethod.noCloud " +
		"sshPublicKey.propagationMethod.qemuGuestAgent.users[] sshPublicKey.source.secret.secretName " +
		"userPassword.propagationMethod.qemuGuestAgent userPassword.source.secret.secretName",
		rejectedInPod, "access credentials are not supported; use cloud-init user data"},

	{"spec.networks[]", "name", inDomain, "ties an interface to it"},
	{"spec.networks[].pod", "vmIPv6NetworkCIDR vmNetworkCIDR", inLauncher, "the network between QEMU and the guest"},
	{"spec.networks[]", "multus.networkName", notInPod, networkRejected},
	{"spec.networks[]", "multus.default resourceClaim.claimName resourceClaim.requestName", rejectedInPod, networkRejected},

	{"spec.volumes[]", "name", inDomain, "ties a disk to it"},
	{"spec.volumes[]", "containerDisk.image dataVolume.name ephemeral.persistentVolumeClaim hostDisk.path persistentVolumeClaim", inDomain, ""},
	{"spec.volumes[]", "cloudInitConfigDrive.networkData cloudInitConfigDrive.networkDataBase64 cloudInitConfigDrive.networkDataSecretRef " +
		"cloudInitConfigDrive.secretRef cloudInitConfigDrive.userData cloudInitConfigDrive.userDataBase64", inLauncher, imageContent},
	{"spec.volumes[]", "cloudInitNoCloud.networkData cloudInitNoCloud.networkDataBase64 cloudInitNoCloud.networkDataSecretRef " +
		"cloudInitNoCloud.secretRef cloudInitNoCloud.userData cloudInitNoCloud.userDataBase64", inLauncher, imageContent},
	{"spec.volumes[]", "configMap configMap.optional configMap.volumeLabel downwardAPI.fields[] downwardAPI.volumeLabel " +
		"secret.optional secret.secretName secret.volumeLabel serviceAccount.serviceAccountName sysprep.configMap sysprep.secret", inLauncher, imageContent},
	{"spec.volumes[]", "emptyDisk.capacity hostDisk.capacity hostDisk.type", inLauncher, "the image file that the launcher makes"},
	{"spec.volumes[]", "hostDisk.shared", inPod, "only live migration reads it"},
	{"spec.volumes[].containerDisk", "imagePullPolicy imagePullSecret path", inPod, "how the image is fetched"},
	{"spec.volumes[]", "dataVolume.hotpluggable persistentVolumeClaim.hotpluggable", inPod, "mounted from the start"},
	{"spec.volumes[]", "downwardMetrics", notInPod, metricsRejected},
	{"spec.volumes[].containerPath", "path readOnly", rejectedInPod, "sharing a folder needs virtiofsd"},
	{"spec.volumes[]", "memoryDump memoryDump.hotpluggable", unsupported, "memory dumps are taken by KubeVirt's own subresource"},

	{"spec.domain", "ioThreadsPolicy ioThreads.supplementalPoolThreadCount rebootPolicy", inDomain, ""},
	{"spec.domain.chassis", "asset manufacturer serial sku version", inDomain, ""},
	{"spec.domain.clock", "timezone utc.offsetSeconds timer.hpet.present timer.hpet.tickPolicy timer.hyperv.present timer.kvm.present " +
		"timer.pit.present timer.pit.tickPolicy timer.rtc.present timer.rtc.tickPolicy timer.rtc.track", inDomain, ""},
	{"spec.domain.cpu", "cores features[].name features[].policy isolateEmulatorThread maxSockets numa.guestMappingPassthrough sockets threads", inDomain, ""},
	{"spec.domain.cpu", "dedicatedCpuPlacement", inDomain, "and a hint to the guest"},
	{"spec.domain.cpu", "model", inDomain, "host-model and host-passthrough are the host's"},
	{"spec.domain.cpu", "realtime.mask", inDomain, "no PMU; memory that is not shared is the backend's"},
	{"spec.domain.features", "acpi.enabled apic.enabled apic.endOfInterrupt hypervPassthrough.enabled kvm.hidden pvspinlock.enabled smm.enabled", inDomain, ""},
	{"spec.domain.features.hyperv", "evmcs.enabled frequencies.enabled ipi.enabled relaxed.enabled reset.enabled runtime.enabled spinlocks.enabled " +
		"spinlocks.spinlocks synic.enabled synictimer.direct.enabled synictimer.enabled tlbflush.direct.enabled tlbflush.enabled " +
		"tlbflush.extended.enabled vapic.enabled vendorid.enabled vendorid.vendorid vpindex.enabled", inDomain, ""},
	{"spec.domain.features.hyperv", "reenlightenment.enabled", inDomain, "its clock is late-bound"},
	{"spec.domain.firmware", "acpi.msdmNameRef acpi.slicNameRef bootloader.bios.useSerial bootloader.efi.secureBoot kernelBoot.container.initrdPath " +
		"kernelBoot.container.kernelPath kernelBoot.kernelArgs serial uuid", inDomain, ""},
	{"spec.domain.firmware", "bootloader.efi.persistent", rejectedInPod, "a pod keeps no state of the firmware"},
	{"spec.domain.firmware.kernelBoot.container", "image imagePullPolicy imagePullSecret", inPod, "where the files come from"},
	{"spec.domain.launchSecurity", "sev.dhCert sev.policy.encryptedState sev.session snp tdx", notInPod, securityRejected},
	{"spec.domain.launchSecurity", "sev.attestation", rejectedInPod, securityRejected},
	{"spec.domain.machine", "type", inDomain, "an alias is the host's"},
	{"spec.domain.memory", "guest maxGuest", inDomain, ""},
	{"spec.domain.memory", "hugepages.pageSize", inDomain, "and one NUMA cell"},
	{"spec.domain", "memory.reservedOverhead.addedOverhead resources.overcommitGuestOverhead", inPod, thePod},
	{"spec.domain.memory.reservedOverhead", "memLock", rejectedInPod, "a pod cannot lock memory"},
	{"spec.domain.resources", "limits requests", inPod, "the pod; stage 1 takes memory and topology from it"},

	{"spec.domain.devices", "autoattachGraphicsDevice autoattachMemBalloon autoattachSerialConsole blockMultiQueue disableHotplug " +
		"logSerialConsole networkInterfaceMultiqueue rng useVirtioTransitional", inDomain, ""},
	{"spec.domain.devices", "autoattachInputDevice", atAdmission, "stage 1 adds the input"},
	{"spec.domain.devices", "autoattachPodInterface", atAdmission, "stage 1 adds the interface"},
	{"spec.domain.devices", "autoattachVSOCK", notInPod, "a pod has no /dev/vhost-vsock"},
	{"spec.domain.devices", "clientPassthrough", notInPod, "USB redirection is not served"},
	{"spec.domain.devices", "downwardMetrics", notInPod, metricsRejected},
	{"spec.domain.devices.disks[]", "blockSize.custom.discardGranularity blockSize.custom.logical blockSize.custom.physical " +
		"blockSize.matchVolume.enabled bootOrder cache cdrom.bus cdrom.readonly cdrom.tray dedicatedIOThread disk.bus disk.pciAddress " +
		"disk.readonly errorPolicy io lun.bus lun.readonly name serial shareable", inDomain, ""},
	{"spec.domain.devices.disks[]", "lun.reservation", notInPod, "a pod has no helper for persistent reservations"},
	{"spec.domain.devices", "disks[].tag gpus[].tag hostDevices[].tag interfaces[].tag", inLauncher, "cloud-init metadata"},
	{"spec.domain.devices.disks[]", "changedBlockTracking", unsupported, "changed block tracking needs an overlay that KubeVirt's virt-handler keeps"},
	{"spec.domain.devices.filesystems[]", "name virtiofs", notInPod, "sharing a file system needs virtiofsd; use a disk"},
	{"spec.domain.devices", "gpus[].name gpus[].virtualGPUOptions.display.enabled gpus[].virtualGPUOptions.display.ramFB.enabled " +
		"hostDevices[].name inputs[].bus inputs[].name inputs[].type", inDomain, ""},
	{"spec.domain.devices", "gpus[].deviceName hostDevices[].deviceName", inPod, "a device resource; which device it is, is a fact of the host"},
	{"spec.domain.devices", "gpus[].claimName gpus[].requestName hostDevices[].claimName hostDevices[].requestName", rejectedInPod, claimsRejected},
	{"spec.domain.devices.interfaces[]", "acpiIndex bootOrder masquerade model name pciAddress state", inDomain, ""},
	{"spec.domain.devices.interfaces[]", "macAddress", inDomain, "late-bound where it is absent"},
	{"spec.domain.devices.interfaces[]", "ports[].port ports[].protocol portRanges[].start portRanges[].end portRanges[].protocol", inDomain, "the launcher and passt forward them"},
	{"spec.domain.devices.interfaces[]", "ports[].name", inPod, "names a port of the container"},
	{"spec.domain.devices.interfaces[]", "dhcpOptions.bootFileName dhcpOptions.tftpServerName", inLauncher, "DHCP"},
	{"spec.domain.devices.interfaces[]", "bridge", notInPod, "a pod without privileges has no bridge; use masquerade"},
	{"spec.domain.devices.interfaces[]", "sriov", notInPod, "a pod has no SR-IOV network; use masquerade"},
	{"spec.domain.devices.interfaces[]", "passtBinding", notInPod, "passt cannot run in a pod without privileges; use masquerade"},
	{"spec.domain.devices.interfaces[].dhcpOptions", "ntpServers[] privateOptions[].option privateOptions[].value", rejectedInPod, "QEMU's user network has no such DHCP option"},
	{"spec.domain.devices.interfaces[]", "slirp", unsupported, "KubeVirt has removed slirp; use masquerade"},
	{"spec.domain.devices.interfaces[]", "macvtap", unsupported, "KubeVirt has removed macvtap from its core; use masquerade, or bridge alongside KubeVirt"},
	{"spec.domain.devices.interfaces[]", "passt", unsupported, "KubeVirt has removed the passt that it called experimental; use masquerade, or passtBinding alongside KubeVirt"},
	{"spec.domain.devices.interfaces[]", "binding.name", unsupported, "binding plugins are programs that KubeVirt runs next to the VMI"},
	{"spec.domain.devices", "panicDevices[].model sound.model sound.name tpm.enabled video.type", inDomain, ""},
	{"spec.domain.devices.tpm", "persistent", notInPod, "a pod keeps no state of a TPM"},
	{"spec.domain.devices.watchdog", "diag288.action i6300esb.action name", inDomain, ""},
}
