package vmschema

// A oneOf is a choice between alternatives, each of fields that are set together.
type oneOf [][]string

func choice(names ...string) oneOf {
	group := make(oneOf, len(names))
	for i, n := range names {
		group[i] = []string{n}
	}
	return group
}

// oneOfs are the choices in a VirtualMachine, by Go type.
var oneOfs = map[string][]oneOf{
	"core/v1.VirtualMachineSpec":  {choice("running", "runStrategy")},
	"core/v1.InstancetypeMatcher": {matcherSources},
	"core/v1.PreferenceMatcher":   {matcherSources},
	"core/v1.DiskDevice":          {choice("disk", "lun", "cdrom")},
	"core/v1.BlockSize":           {choice("custom", "matchVolume")},
	"core/v1.VolumeSource": {choice("hostDisk", "persistentVolumeClaim", "cloudInitNoCloud", "cloudInitConfigDrive",
		"sysprep", "containerDisk", "ephemeral", "emptyDisk", "dataVolume", "configMap", "secret", "downwardAPI",
		"serviceAccount", "downwardMetrics", "memoryDump", "containerPath")},
	"core/v1.CloudInitNoCloudSource":     {userDataSources, networkDataSources},
	"core/v1.CloudInitConfigDriveSource": {userDataSources, networkDataSources},
	"core/v1.SysprepSource":              {choice("secret", "configMap")},
	"core/v1.DownwardAPIVolumeFile":      {choice("fieldRef", "resourceFieldRef")},
	"core/v1.Interface": {choice("bridge", "slirp", "masquerade", "sriov", "macvtap", "passt", "passtBinding", "binding"),
		choice("ports", "portRanges")},
	"core/v1.NetworkSource":    {choice("pod", "multus", "resourceClaim")},
	"core/v1.Bootloader":       {choice("bios", "efi")},
	"core/v1.ClockOffset":      {choice("utc", "timezone")},
	"core/v1.Features":         {choice("hyperv", "hypervPassthrough")},
	"core/v1.WatchdogDevice":   {choice("i6300esb", "diag288")},
	"core/v1.LaunchSecurity":   {choice("sev", "snp", "tdx")},
	"core/v1.Handler":          {choice("exec", "guestAgentPing", "httpGet", "tcpSocket")},
	"core/v1.AccessCredential": {choice("sshPublicKey", "userPassword")},
	"core/v1.SSHPublicKeyAccessCredentialPropagationMethod": {choice("configDrive", "noCloud", "qemuGuestAgent")},
	"core/v1.GPU":        {deviceSources},
	"core/v1.HostDevice": {deviceSources},
	"core/v1.VirtualMachineInstanceResourceClaim": {choice("resourceClaimName", "resourceClaimTemplateName")},
	"core/v1beta1.DataVolumeSpec":                 {choice("source", "sourceRef"), choice("pvc", "storage")},
	"core/v1beta1.DataVolumeSource": {choice("http", "s3", "gcs", "registry", "pvc", "upload", "blank", "imageio",
		"vddk", "snapshot")},
	"core/v1beta1.DataVolumeSourceRegistry": {choice("url", "imageStream")},
	"core/v1.PersistentVolumeClaimSpec":     {choice("dataSource", "dataSourceRef")},
	"core/v1beta1.StorageSpec":              {choice("dataSource", "dataSourceRef")},
}

var (
	matcherSources     = oneOf{{"name", "kind", "revisionName"}, {"inferFromVolume", "inferFromVolumeFailurePolicy"}}
	userDataSources    = choice("secretRef", "userDataBase64", "userData")
	networkDataSources = choice("networkDataSecretRef", "networkDataBase64", "networkData")
	deviceSources      = oneOf{{"deviceName"}, {"claimName", "requestName"}}
)
