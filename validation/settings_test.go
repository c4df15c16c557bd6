package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/validation"
)

func TestSettings(t *testing.T) {
	got, problems := set(
		"feature-gates=HostDisk=true,NUMA=false", "feature-gates=VSOCK=1", "emulated-machines=amd64=q35,pc-q35-9.*", "emulated-machines=arm64=virt-9.2",
		"forbid-bridge-on-pod-network=true", "vm-rollout-strategy=Stage", "grace-gpu=nvidia.com/a", "grace-gpu=nvidia.com/b",
	)
	if len(problems) != 0 {
		t.Error(problems)
	}
	want := &validation.Config{
		Gates:                map[validation.Gate]bool{validation.GateHostDisk: true, validation.GateNUMA: false, validation.GateVSOCK: true},
		EmulatedMachines:     map[string][]string{"amd64": {"q35", "pc-q35-9.*"}, "arm64": {"virt-9.2"}},
		NoBridgeOnPodNetwork: true, NoLiveUpdate: true, GraceDevices: []string{"nvidia.com/a", "nvidia.com/b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadSettings(t *testing.T) {
	for given, want := range map[string]string{
		"feature-gates=HostDisc=true":          `unknown feature gate "HostDisc"; did you mean "HostDisk"?`,
		"feature-gates=Q=true":                 `unknown feature gate "Q"; there are DeclarativeHotplugVolumes, `,
		"feature-gates=":                       `want NAME=true or NAME=false, not ""`,
		"feature-gates=NUMA=maybe":             `want NAME=true or NAME=false, not "NUMA=maybe"`,
		"emulated-machines=q35":                `want ARCHITECTURE=PATTERN,..., of amd64, arm64, s390x, not "q35"`,
		"emulated-machines=amd64=":             `want ARCHITECTURE=PATTERN`,
		"emulated-machines=amd64=q35,":         `"" is no pattern of machine types`,
		"emulated-machines=amd64=q[":           `"q[" is no pattern of machine types`,
		"forbid-bridge-on-pod-network=perhaps": `want true or false, not "perhaps"`,
		"vm-rollout-strategy=Staged":           `want LiveUpdate or Stage, not "Staged"`,
		"grace-gpu=GB200":                      `want a resource name such as nvidia.com/GB200, not "GB200"`,
	} {
		config, problems := set(given)
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s: want %q, got %q", given, want, problems)
		}
		if diff := cmp.Diff(&validation.Config{}, config); diff != "" {
			t.Errorf("%s changed the configuration (-want +got):\n%s", given, diff)
		}
	}
}

// set gives a configuration what flags say.
func set(flags ...string) (*validation.Config, []string) {
	config := &validation.Config{}
	var problems []string
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		for _, s := range validation.Settings() {
			if s.Name == name {
				if err := s.Set(config, value); err != nil {
					problems = append(problems, err.Error())
				}
			}
		}
	}
	return config, problems
}
