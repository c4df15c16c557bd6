package render

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/api/instancetype/v1beta1"
)

// choices are values for fields, by path. A value is JSON.
type choices map[string][]string

var instancetypeChoices = choices{
	"cpu.guest":                 {"1", "2", "4", "8"},
	"cpu.model":                 {`"host-model"`, `"EPYC"`},
	"cpu.dedicatedCPUPlacement": {"true", "false"},
	"cpu.isolateEmulatorThread": {"false"},
	"cpu.numa":                  {`{"guestMappingPassthrough":{}}`},
	"cpu.realtime":              {`{"mask":"0-1"}`},
	"cpu.maxSockets":            {"16"},
	"memory.guest":              {`"1Gi"`, `"2048Mi"`, `"8Gi"`},
	"memory.hugepages":          {`{"pageSize":"2Mi"}`},
	"memory.overcommitPercent":  {"15", "50"},
	"memory.maxGuest":           {`"16Gi"`},
	"ioThreads":                 {`{"supplementalPoolThreadCount":4}`},
	"ioThreadsPolicy":           {`"auto"`, `"supplementalPool"`},
	"launchSecurity":            {`{"sev":{}}`, `{"sev":{"policy":{"encryptedState":true}}}`},
	"gpus":                      {`[{"name":"gpu","deviceName":"nvidia.com/A16"}]`},
	"hostDevices":               {`[{"name":"dev","deviceName":"example.com/dev"}]`},
	"nodeSelector":              {`{"example.com/zone":"a"}`},
	"schedulerName":             {`"numa-aware"`},
	"annotations":               {`{"example.com/from":"instancetype"}`},
}

var preferenceChoices = choices{
	"annotations":                                 {`{"example.com/os":"linux"}`, `{"example.com/from":"preference"}`},
	"preferredArchitecture":                       {`"amd64"`},
	"preferredSubdomain":                          {`"vms"`},
	"preferSpreadSocketToCoreRatio":               {"4"},
	"preferredTerminationGracePeriodSeconds":      {"180"},
	"preferredLaunchSecurity":                     {`{"sev":{}}`},
	"clock.preferredClockOffset":                  {`{"utc":{}}`, `{"timezone":"Europe/Berlin"}`},
	"clock.preferredTimer":                        {`{"hyperv":{},"hpet":{"present":false},"pit":{"tickPolicy":"delay"}}`},
	"cpu.preferredCPUTopology":                    {`"cores"`, `"preferThreads"`, `"spread"`, `"any"`, `"preferSockets"`},
	"cpu.spreadOptions":                           {`{"ratio":4}`, `{"across":"CoresThreads"}`, `{"across":"SocketsCoresThreads"}`},
	"cpu.preferredCPUFeatures":                    {`[{"name":"vmx","policy":"require"},{"name":"aes"}]`},
	"devices.preferredAutoattachGraphicsDevice":   {"false"},
	"devices.preferredAutoattachMemBalloon":       {"false"},
	"devices.preferredAutoattachPodInterface":     {"false"},
	"devices.preferredAutoattachSerialConsole":    {"true"},
	"devices.preferredAutoattachInputDevice":      {"true"},
	"devices.preferredBlockMultiQueue":            {"true"},
	"devices.preferredCdromBus":                   {`"sata"`},
	"devices.preferredDisableHotplug":             {"true"},
	"devices.preferredDiskBlockSize":              {`{"matchVolume":{}}`},
	"devices.preferredDiskBus":                    {`"virtio"`, `"sata"`},
	"devices.preferredDiskCache":                  {`"none"`},
	"devices.preferredDiskDedicatedIoThread":      {"true"},
	"devices.preferredDiskIO":                     {`"native"`},
	"devices.preferredInputBus":                   {`"usb"`},
	"devices.preferredInputType":                  {`"tablet"`},
	"devices.preferredInterfaceMasquerade":        {"{}"},
	"devices.preferredInterfaceModel":             {`"virtio"`, `"e1000e"`},
	"devices.preferredLunBus":                     {`"scsi"`},
	"devices.preferredNetworkInterfaceMultiQueue": {"true"},
	"devices.preferredPanicDeviceModel":           {`"isa"`},
	"devices.preferredRng":                        {"{}"},
	"devices.preferredSoundModel":                 {`"ac97"`},
	"devices.preferredTPM":                        {"{}", `{"persistent":true}`},
	"devices.preferredUseVirtioTransitional":      {"true"},
	"devices.preferredVideoType":                  {`"virtio"`},
	"devices.preferredVirtualGPUOptions":          {`{"display":{"enabled":false}}`},
	"features.preferredAcpi":                      {`{"enabled":true}`, "{}"},
	"features.preferredApic":                      {"{}"},
	"features.preferredHyperv":                    {`{"relaxed":{},"spinlocks":{"spinlocks":8191}}`},
	"features.preferredKvm":                       {`{"hidden":true}`},
	"features.preferredPvspinlock":                {`{"enabled":true}`},
	"features.preferredSmm":                       {"{}"},
	"firmware.preferredEfi":                       {`{"persistent":true,"secureBoot":false}`},
	"firmware.preferredUseBios":                   {"true"},
	"firmware.preferredUseBiosSerial":             {"true"},
	"firmware.preferredUseEfi":                    {"true"},
	"firmware.preferredUseSecureBoot":             {"true"},
	"machine.preferredMachineType":                {`"q35"`},
	"requirements.architecture":                   {`"amd64"`},
	"requirements.cpu":                            {`{"guest":1}`},
	"requirements.memory":                         {`{"guest":"1Gi"}`},
	"volumes.preferredStorageClassName":           {`"fast"`},
}

// vmChoices are fields of a VM's template that its author sets.
var vmChoices = choices{
	"metadata.annotations":                     {`{"example.com/from":"author"}`},
	"spec.architecture":                        {`"amd64"`},
	"spec.domain.clock":                        {`{"utc":{}}`, `{"timer":{"rtc":{"tickPolicy":"catchup"}}}`},
	"spec.domain.cpu":                          {`{"model":"EPYC"}`, `{"features":[{"name":"aes","policy":"disable"}]}`},
	"spec.domain.devices.autoattachMemBalloon": {"true"},
	"spec.domain.devices.inputs":               {`[{"name":"tablet","type":"tablet"}]`},
	"spec.domain.devices.panicDevices":         {`[{}]`},
	"spec.domain.devices.rng":                  {"{}"},
	"spec.domain.devices.sound":                {`{"name":"sound"}`},
	"spec.domain.devices.disks":                {`[{"name":"root","disk":{}},{"name":"cd","cdrom":{"readonly":true}}]`, `[{"name":"root","disk":{"bus":"scsi"}}]`, `[{"name":"data","lun":{}}]`},
	"spec.domain.features":                     {`{"acpi":{"enabled":false}}`, `{"hyperv":{"relaxed":{"enabled":false}}}`},
	"spec.domain.firmware":                     {`{"bootloader":{"efi":{}}}`, `{"bootloader":{"bios":{}}}`},
	"spec.domain.ioThreadsPolicy":              {`"shared"`},
	"spec.domain.machine":                      {`{"type":"pc-q35-rhel9.4.0"}`},
	"spec.domain.memory":                       {`{"guest":"3Gi"}`},
	"spec.nodeSelector":                        {`{"example.com/disk":"ssd"}`},
	"spec.terminationGracePeriodSeconds":       {"0"},
}

// template is what every generated VM has: networks and volumes. Some volumes lack a disk.
const template = `{"spec":{"domain":{"devices":{"interfaces":[{"name":"default"},{"name":"blue","bridge":{}}]}},
"networks":[{"name":"default","pod":{}},{"name":"blue","multus":{"networkName":"blue"}}],
"volumes":[{"name":"root","containerDisk":{"image":"i"}},{"name":"cd","containerDisk":{"image":"c"}},{"name":"data","persistentVolumeClaim":{"claimName":"d"}}]}}`

// some puts some values into an object, each with a chance of one in n.
func (c choices) some(t *testing.T, random *rand.Rand, into map[string]any, n int) {
	t.Helper()
	paths := make([]string, 0, len(c))
	for path := range c {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if len(c[path]) == 0 || random.IntN(n) > 0 {
			continue
		}
		c.set(t, into, path, random.IntN(len(c[path])))
	}
}

func (c choices) set(t *testing.T, into map[string]any, path string, n int) {
	t.Helper()
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		if into[name] == nil {
			into[name] = map[string]any{}
		}
		into, _ = into[name].(map[string]any)
	}
	var value any
	if err := json.Unmarshal([]byte(c[path][n]), &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	into[names[len(names)-1]] = value
}

// TestImportChoicesAreComplete fails when an instancetype or a preference has a field that no case
// sets.
func TestImportChoicesAreComplete(t *testing.T) {
	for of, c := range map[reflect.Type]choices{
		reflect.TypeFor[v1beta1.VirtualMachineInstancetypeSpec](): instancetypeChoices,
		reflect.TypeFor[v1beta1.VirtualMachinePreferenceSpec]():   preferenceChoices,
	} {
		c.complete(t, of, "")
	}
}

func (c choices) complete(t *testing.T, of reflect.Type, at string) {
	t.Helper()
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := strings.TrimPrefix(at+"."+name, ".")
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case len(c[path]) > 0:
		case kind.Kind() == reflect.Struct && strings.HasSuffix(kind.PkgPath(), "/instancetype/v1beta1"):
			c.complete(t, kind, path)
		default:
			t.Errorf("no case sets %s of %s", path, of)
		}
	}
}
