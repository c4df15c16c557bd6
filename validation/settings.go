package validation

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/virtwright/virtwright/presets/spelling"
)

// A Setting is a flag that sets a field of a [Config]. All programs that run rules share them. Each
// exists in KubeVirt's configuration too. Alongside KubeVirt they have no effect.
type Setting struct {
	Name  string
	Usage string
	// Switch marks flags without a value, which means "true".
	Switch bool
	// Set parses a value into c. A flag may occur several times.
	Set func(c *Config, value string) error
}

// Settings returns all settings.
func Settings() []Setting {
	return []Setting{
		{Name: "feature-gates", Usage: "standalone: comma-separated NAME=true or NAME=false; defaults are KubeVirt's", Set: (*Config).setGates},
		{
			Name: "emulated-machines", Usage: "standalone: ARCHITECTURE=PATTERN,... of the machine types allowed, such as amd64=q35*; may be given for several architectures; defaults are KubeVirt's",
			Set: (*Config).setMachines,
		},
		{Name: "forbid-bridge-on-pod-network", Usage: "standalone: reject bridge bindings on the pod network", Switch: true, Set: (*Config).setNoBridge},
		{Name: "vm-rollout-strategy", Usage: "LiveUpdate, where VMIs get maximum values of CPUs and memory, as in KubeVirt, or Stage, where they do not; with addon: that of KubeVirt (default LiveUpdate)", Set: (*Config).setRollout},
		{
			Name: "grace-gpu", Usage: "standalone: resource name of an NVIDIA Grace GPU that may be passed through, such as nvidia.com/GB200; may be given several times",
			Set: (*Config).addGraceGPU,
		},
	}
}

func (c *Config) setGates(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("want NAME=true or NAME=false, not %q", pair)
		}
		if _, known := gates[Gate(name)]; !known {
			return fmt.Errorf("unknown feature gate %q%s", name, nearestGate(name))
		}
		if c.Gates == nil {
			c.Gates = map[Gate]bool{}
		}
		c.Gates[Gate(name)] = on
	}
	return nil
}

func nearestGate(name string) string {
	var all []string
	for _, g := range slices.Sorted(maps.Keys(gates)) {
		all = append(all, string(g))
	}
	return cmp.Or(spelling.DidYouMean(name, slices.Values(all)), "; there are "+strings.Join(all, ", "))
}

func (c *Config) setMachines(text string) error {
	architecture, patterns, _ := strings.Cut(text, "=")
	if _, known := emulatedMachines[architecture]; !known || patterns == "" {
		return fmt.Errorf("want ARCHITECTURE=PATTERN,..., of %s, not %q", strings.Join(slices.Sorted(maps.Keys(emulatedMachines)), ", "), text)
	}
	list := strings.Split(patterns, ",")
	for _, pattern := range list {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%q is no pattern of machine types: want such as q35* or pc-q35-*", pattern)
		}
	}
	if c.EmulatedMachines == nil {
		c.EmulatedMachines = map[string][]string{}
	}
	c.EmulatedMachines[architecture] = list
	return nil
}

func (c *Config) setNoBridge(text string) (err error) {
	if c.NoBridgeOnPodNetwork, err = strconv.ParseBool(text); err != nil {
		return fmt.Errorf("want true or false, not %q", text)
	}
	return nil
}

func (c *Config) setRollout(text string) error {
	if text != "LiveUpdate" && text != "Stage" {
		return fmt.Errorf("want LiveUpdate or Stage, not %q", text)
	}
	c.NoLiveUpdate = text == "Stage"
	return nil
}

func (c *Config) addGraceGPU(resource string) error {
	if vendor, device, found := strings.Cut(resource, "/"); !found || vendor == "" || device == "" {
		return fmt.Errorf("want a resource name such as nvidia.com/GB200, not %q", resource)
	}
	c.GraceDevices = append(c.GraceDevices, resource)
	return nil
}
