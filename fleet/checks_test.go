package fleet_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

var settings = fleet.Settings{Rules: &validation.Config{}}

var profiles, _ = domain.CompileProfiles(nil, nil)

func render(vmi *kubevirtv1.VirtualMachineInstance) field.ErrorList {
	return append(profiles.Check(vmi, nil), domain.CheckPod(vmi)...)
}

// compiled reads presets. It returns the valid ones, and the number of invalid ones.
func compiled(t testing.TB, text string) (out []*presets.Compiled, objects []v1alpha1.Preset, broken int) {
	t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		if strings.Contains(document, "kind: PresetException") {
			continue
		}
		var p v1alpha1.Preset = &v1alpha1.VirtualMachinePreset{}
		if strings.Contains(document, "kind: Cluster") {
			p = &v1alpha1.ClusterVirtualMachinePreset{}
		}
		if err := yaml.Unmarshal([]byte(document), p); err != nil {
			t.Fatal(err)
		}
		c, problems := presets.Compile(p)
		if len(problems) > 0 {
			broken++
			continue
		}
		out, objects = append(out, c), append(objects, p)
	}
	return out, objects, broken
}

func exceptions(t *testing.T, text string) (out []*presets.Exception) {
	t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		if !strings.Contains(document, "kind: PresetException") {
			continue
		}
		e := &v1alpha1.PresetException{}
		if err := yaml.Unmarshal([]byte(document), e); err != nil {
			t.Fatal(err)
		}
		c, problems := presets.CompileException(e)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		out = append(out, c)
	}
	return out
}

// TestExamples finds exactly the expected check in each example.
func TestExamples(t *testing.T) {
	ids := map[string]bool{}
	for _, check := range fleet.Checks {
		t.Run(check.ID, func(t *testing.T) {
			if ids[check.ID] || check.Summary == "" || check.Reason == "" || check.Fix == "" {
				t.Errorf("%s: used twice, or incomplete", check.ID)
			}
			ids[check.ID] = true
			if check == fleet.RejectedVM || check == fleet.IncompleteVM { // not of fleet
				return
			}
			all, objects, broken := compiled(t, exampleOf(t, check))
			if check == fleet.UnknownField || check == fleet.InvalidPreset {
				if broken != 1 {
					t.Errorf("want one preset that does not compile, got %d", broken)
				}
				return
			}
			rules := &validation.Config{Addon: check.Name == "launch-live-update" || check.Name == "warned-value"}
			with := fleet.Settings{Rules: rules, Exceptions: exceptions(t, exampleOf(t, check))}
			if !rules.Addon {
				with.Render = render
			}
			found, complete := fleet.Analyze(t.Context(), all, with)
			if !complete {
				t.Error("incomplete")
			}
			for i, p := range objects {
				alone := fleet.CheckPreset(rules, p, all[i])
				for _, known := range alone {
					found = slices.DeleteFunc(found, func(f fleet.Finding) bool { return f.Repeats(&known) })
				}
				found = append(found, alone...)
			}
			if got := idsOf(found); !slices.Equal(got, []string{check.ID}) {
				t.Errorf("want %s once, got %s", check.ID, describe(found))
			}
		})
	}
}

func idsOf(found []fleet.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.ID)
	}
	return out
}

func describe(found []fleet.Finding) string {
	var out strings.Builder
	for _, f := range found {
		fmt.Fprintf(&out, "\n%s %s %s: %s", f.ID, f.Preset.Ref, f.Field, f.Message)
		if f.Witness != nil {
			text, _ := yaml.Marshal(f.Witness.Object)
			fmt.Fprintf(&out, "\n%s", text)
		}
	}
	return out.String()
}

// TestOrder finds the same in any order of the presets.
func TestOrder(t *testing.T) {
	var text []string
	for _, check := range fleet.Checks {
		if check == fleet.RejectedVM || check == fleet.IncompleteVM { // have VMs
			continue
		}
		for document := range strings.SplitSeq(exampleOf(t, check), "---\n") {
			text = append(text, strings.Replace(document, "metadata: {name: ", "metadata: {name: "+strings.ToLower(check.ID)+"-", 1))
		}
	}
	all, _, _ := compiled(t, strings.Join(text, "---\n"))
	want, _ := fleet.Analyze(t.Context(), all, settings)
	slices.Reverse(all)
	if got, _ := fleet.Analyze(t.Context(), all, settings); describe(got) != describe(want) {
		t.Errorf("want%s\ngot%s", describe(want), describe(got))
	}
}

// TestEnded returns the findings until the context ended.
func TestEnded(t *testing.T) {
	all, _, _ := compiled(t, exampleOf(t, fleet.Conflicting))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, complete := fleet.Analyze(ctx, all, settings); len(found) != 0 || complete {
		t.Errorf("got%s", describe(found))
	}
}

// TestEndedMidway ends the comparison of many keys with its context. It would take minutes.
func TestEndedMidway(t *testing.T) {
	list := func(format string) string {
		var out []string
		for i := range 256 {
			out = append(out, fmt.Sprintf(format, i))
		}
		return strings.Join(out, ", ")
	}
	var text []string
	for i := range 60 {
		text = append(text, fmt.Sprintf("kind: VirtualMachinePreset\nmetadata: {name: p%[1]d, namespace: a}\n"+
			"spec: {defaults: {metadata: {annotations: {%[2]s}}}, forbid: [%[3]s], require: [%[4]s]}\n", i,
			list(fmt.Sprintf("annotation-%d-%%d: set", i)), list(fmt.Sprintf("{path: 'metadata.annotations[\"forbidden-%d-%%d\"]'}", i)),
			list(fmt.Sprintf("{path: 'metadata.annotations[\"required-%d-%%d\"]'}", i))))
	}
	all, _, _ := compiled(t, strings.Join(text, "---\n"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan bool, 1)
	go func() {
		_, complete := fleet.Analyze(ctx, all, settings)
		ended <- complete
	}()
	select {
	case complete := <-ended:
		if complete || len(all) != 60 {
			t.Errorf("the analysis of %d presets is complete: %t", len(all), complete)
		}
	case <-time.After(20 * time.Second):
		t.Error("the analysis does not end with its context")
	}
}

// TestInvalidVM finds what rules reject on every VM, and notes what authors may complete.
func TestInvalidVM(t *testing.T) {
	for spec, want := range map[string][]string{
		`tolerations: [{key: a, operator: Exists, effect: NoSchedul}]`:                                                                                   {"VW104 spec.defaults.spec.template.spec.tolerations[a,Exists,,NoSchedul].effect"},
		`domain: {devices: {gpus: [{name: g}]}}`:                                                                                                         {"VW104 spec.defaults.spec.template.spec.domain.devices.gpus[g].name"},
		`domain: {features: {smm: {enabled: false}}, firmware: {bootloader: {efi: {secureBoot: true}}}}`:                                                 {"VW104 spec.defaults.spec.template.spec.domain.firmware.bootloader.efi.secureBoot"},
		`domain: {devices: {watchdog: {name: w, i6300esb: {action: rset}}}}`:                                                                             {"VW104 spec.defaults.spec.template.spec.domain.devices.watchdog.i6300esb.action"},
		`domain: {cpu: {isolateEmulatorThread: true}}`:                                                                                                   {"VW108 spec.defaults.spec.template.spec.domain.cpu.isolateEmulatorThread"},
		`domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}`:                                                                                    {"VW108 spec.defaults.spec.template.spec.domain.firmware.bootloader.efi.secureBoot"},
		`domain: {memory: {hugepages: {pageSize: 2Mi}}, cpu: {numa: {guestMappingPassthrough: {}}}}`:                                                     {"VW108 spec.defaults.spec.template.spec.domain.cpu.numa.guestMappingPassthrough"},
		`volumes: [{name: root, containerDisk: {imagePullPolicy: Always}}]`:                                                                              {"VW108 spec.defaults.spec.template.spec.volumes[root].containerDisk.imagePullPolicy"},
		`domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, containerDisk: {imagePullPolicy: Always}}]`:             {"VW108 spec.defaults.spec.template.spec.volumes[root].containerDisk.imagePullPolicy"},
		`volumes: [{name: root, containerDisk: {image: a}}, {name: {$cel: "'a-' + object.metadata.name"}, persistentVolumeClaim: {hotpluggable: true}}]`: {"VW108 spec.defaults.spec.template.spec.volumes[#1].name"},
		`networks: [{name: net, pod: {}}], domain: {devices: {interfaces: [{name: net, masquerade: {}}]}}`:                                               nil,
		`domain: {memory: {maxGuest: 16Gi}}`:                                                                                                             nil,
		`volumes: [{name: c, cloudInitNoCloud: {userData: "#cloud-config"}}], domain: {devices: {disks: [{name: c, disk: {}}]}}`:                         nil,
	} {
		all, _, broken := compiled(t, "kind: ClusterVirtualMachinePreset\nmetadata: {name: p}\nspec: {defaults: {spec: {template: {spec: {"+spec+"}}}}}\n")
		if broken > 0 {
			t.Errorf("%s does not compile", spec)
		}
		found, _ := fleet.Analyze(t.Context(), all, fleet.Settings{Rules: settings.Rules, Render: render})
		var got []string
		for _, f := range found {
			got = append(got, f.ID+" "+f.Field)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: want %s, got %s%s", spec, want, got, describe(found))
		}
	}
}

// TestFieldsOfPresetsDoNotSelect has conditions that read what another preset gives.
func TestFieldsOfPresetsDoNotSelect(t *testing.T) {
	const path = "object.spec.template.spec."
	for condition, want := range map[string]bool{
		path + "hostname == 'x'":                     true,
		path + "?hostname.orValue('') == 'x'":        true,
		path + "?hostname.orValue('') in ['x', 'y']": true,
		"has(" + path + "domain.cpu)":                true,
		path + "hostname == 'y'":                     false,
		"has(" + path + "domain.devices)":            false, // a guard
		"has(object.metadata.labels) && object.metadata.labels[?'a'].orValue('') == 'c'": false,
		path + "?hostname.orValue('x') == 'x'":                                           false, // VMs without the field match
		"!has(" + path + "hostname)":                                                     false,
		path + "?subdomain.orValue('') == 'x'":                                           false,
	} {
		all, _, _ := compiled(t, fmt.Sprintf(`kind: ClusterVirtualMachinePreset
metadata: {name: gives}
spec: {match: {labels: {matchLabels: {a: b}}}, defaults: {spec: {template: {spec: {hostname: x, domain: {cpu: {cores: 2}}}}}}}
---
kind: ClusterVirtualMachinePreset
metadata: {name: reads}
spec: {match: {conditions: [{name: c, expression: %q}]}, defaults: {spec: {template: {spec: {nodeSelector: {c: d}}}}}}
---
kind: ClusterVirtualMachinePreset
metadata: {name: requires}
spec: {match: {conditions: [{name: c, expression: "%sdomain.cpu.sockets == 2"}]}, defaults: {spec: {template: {spec: {domain: {cpu: {sockets: 2}}}}}}}
`, condition, path))
		found, _ := fleet.Analyze(t.Context(), all, settings)
		got := slices.ContainsFunc(found, func(f fleet.Finding) bool { return f.ID == "VW206" })
		if got != want {
			t.Errorf("%s: VW206 is %t: %v", condition, got, found)
		}
	}
}

// TestManyPairs ends the analysis early, without unconfirmed findings.
func TestManyPairs(t *testing.T) {
	var text []string
	for i := range 400 {
		text = append(text, fmt.Sprintf(`kind: ClusterVirtualMachinePreset
metadata: {name: p%03d}
spec:
  match: {conditions: [{name: never, expression: "object.?spec.template.spec.domain.cpu.cores.orValue(0) > 1000 && object.metadata.?labels.?x.orValue('') == 'y%d'"}]}
  defaults: {spec: {template: {spec: {domain: {memory: {guest: %dGi}}}}}}
`, i, i, i+1))
	}
	all, _, _ := compiled(t, strings.Join(text, "---\n"))
	if found, _ := fleet.Analyze(t.Context(), all, settings); len(found) > 0 {
		t.Errorf("got%s", describe(found))
	}
}

// exampleOf returns a manifest with the finding of a check.
func exampleOf(t *testing.T, check *fleet.Check) string {
	t.Helper()
	text, err := os.ReadFile("testdata/checks/" + check.ID + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
