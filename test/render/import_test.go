package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/cases"
)

// importCase is a VM with the specs of what it names.
type importCase struct {
	VM           map[string]any `json:"vm"`
	Instancetype map[string]any `json:"instancetype"`
	Preference   map[string]any `json:"preference"`
}

// started is the template with which a VM starts.
type started struct {
	Template *kubevirtv1.VirtualMachineInstanceTemplateSpec `json:"template"`
	Rejected string                                         `json:"rejected"`
}

// generated is a case in a namespace of its own. Cluster kinds are in it too: names tell them
// apart.
func generated(t *testing.T, n int) (importCase, []map[string]any) {
	t.Helper()
	random := rand.New(rand.NewPCG(18, uint64(n)))
	c := importCase{VM: map[string]any{}, Instancetype: map[string]any{}, Preference: map[string]any{}}
	instancetypeChoices.set(t, c.Instancetype, "cpu.guest", random.IntN(4))
	instancetypeChoices.set(t, c.Instancetype, "memory.guest", random.IntN(3))
	instancetypeChoices.some(t, random, c.Instancetype, 5)
	preferenceChoices.some(t, random, c.Preference, 6)
	var inner map[string]any
	if err := json.Unmarshal([]byte(template), &inner); err != nil {
		t.Fatal(err)
	}
	vmChoices.some(t, random, inner, 12)
	cluster := ""
	if n%10 == 0 {
		cluster = "Cluster"
	}
	name, namespace := fmt.Sprintf("case-%d", n), fmt.Sprintf("ns-%d", n)
	object := func(kind string, spec map[string]any) map[string]any {
		out := map[string]any{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
		if cluster == "" {
			out["metadata"] = map[string]any{"name": name, "namespace": namespace}
		}
		return out
	}
	it, preference := "VirtualMachine"+cluster+"Instancetype", "VirtualMachine"+cluster+"Preference"
	c.VM = map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"runStrategy": "Halted", "template": inner,
			"instancetype": map[string]any{"kind": it, "name": name}, "preference": map[string]any{"kind": preference, "name": name},
		},
	}
	return c, []map[string]any{object(it, c.Instancetype), object(preference, c.Preference), c.VM}
}

// TestImportedVMsStartAsInKubeVirt compares what KubeVirt's own code makes of VMs with
// instancetypes and preferences with what the imported presets make of the converted VMs.
func TestImportedVMsStartAsInKubeVirt(t *testing.T) {
	var objects []map[string]any
	var all []importCase
	for n := range cases.Of(400) {
		c, o := generated(t, n)
		all, objects = append(all, c), append(objects, o...)
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(in, list, 0o600); err != nil {
		t.Fatal(err)
	}
	manifest, report := imported(t, in)
	vms, _ := imported(t, in, "--vms")
	converted := startedByPresets(t, vms, manifest)
	before := startedByKubeVirt(t, all)
	compared := 0
	for n, c := range all {
		name := fmt.Sprintf("case-%d", n)
		after, found := converted[name]
		vm := fmt.Sprintf("VirtualMachine ns-%d/%s: ", n, name)
		declined := strings.Contains(report, vm+"not compared: ") || strings.Contains(report, vm+"would differ: ")
		if says := strings.Contains(report, vm+"not compared: KubeVirt rejects it"); says != (before[n].Rejected != "") {
			t.Errorf("%s: import says that KubeVirt rejects it: %t, and KubeVirt %q", name, says, before[n].Rejected)
		}
		switch {
		case !found && !declined:
			t.Errorf("%s is dropped", name)
		case found && before[n].Rejected == "":
			compared++
			if diff := cmp.Diff(normal(before[n].Template), normal(after)); diff != "" {
				text, _ := json.Marshal(c)
				t.Errorf("%s starts with other fields: -KubeVirt, +presets\n%s\n%s", name, diff, text)
			}
		}
	}
	if compared < len(all)/2 {
		t.Errorf("only %d of %d VMs are converted:\n%s", compared, len(all), report)
	}
	t.Logf("%d of %d VMs are converted, and start as in KubeVirt", compared, len(all))
}

// normal makes each disk without a target a disk, as KubeVirt's defaults do, and removes objects
// without fields that only hold fields.
func normal(template *kubevirtv1.VirtualMachineInstanceTemplateSpec) *kubevirtv1.VirtualMachineInstanceTemplateSpec {
	domain := &template.Spec.Domain
	for i, d := range domain.Devices.Disks {
		if d.DiskDevice == (kubevirtv1.DiskDevice{}) {
			domain.Devices.Disks[i].Disk = &kubevirtv1.DiskTarget{}
		}
	}
	if domain.Firmware != nil {
		dropEmpty(&domain.Firmware.Bootloader)
	}
	if domain.Features != nil {
		dropEmpty(&domain.Features.Hyperv)
	}
	dropEmpty(&domain.Firmware)
	dropEmpty(&domain.Features)
	dropEmpty(&domain.Clock)
	dropEmpty(&domain.CPU)
	return template
}

func dropEmpty[T any](field **T) {
	if *field != nil && reflect.ValueOf(**field).IsZero() {
		*field = nil
	}
}

// imported is what import prints. Some VMs are declined, so that it fails.
func imported(t *testing.T, file string, args ...string) (out []byte, report string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.Command(program(t), append([]string{"import", "-f", file}, args...)...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return stdout.Bytes(), stderr.String()
}

// startedByPresets are the templates of VMs under presets, by name, alongside KubeVirt, which then
// adds disks for volumes. Rules do not judge the VMs: most of them have devices at random.
func startedByPresets(t *testing.T, vms, manifest []byte) map[string]*kubevirtv1.VirtualMachineInstanceTemplateSpec {
	t.Helper()
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(vms, &list); err != nil {
		t.Fatal(err)
	}
	snapshot := compiled(t, manifest)
	var names []string
	var again []importCase
	for _, raw := range list.Items {
		var meta metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &meta); err != nil {
			t.Fatal(err)
		}
		result, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{
			Kind: presets.VirtualMachine, Object: raw, Namespace: presets.Namespace{Name: meta.Namespace},
		})
		if err != nil {
			t.Fatalf("%s: %v", meta.Name, err)
		}
		names, again = append(names, meta.Name), append(again, importCase{VM: result.Object()})
	}
	out := map[string]*kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	for i, s := range startedByKubeVirt(t, again) {
		out[names[i]] = s.Template
	}
	return out
}

// compiled are the presets of a manifest.
func compiled(t *testing.T, manifest []byte) *presets.Snapshot {
	t.Helper()
	var all []*presets.Compiled
	for document := range strings.SplitSeq(string(manifest), "---\n") {
		var object v1alpha1.Preset = &v1alpha1.VirtualMachinePreset{}
		if strings.Contains(document, "\nkind: ClusterVirtualMachinePreset\n") {
			object = &v1alpha1.ClusterVirtualMachinePreset{}
		}
		if strings.TrimSpace(document) == "" {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		c, problems := presets.Compile(object)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		all = append(all, c)
	}
	return presets.NewSnapshot(all, nil)
}

// startedByKubeVirt are the templates that KubeVirt makes.
func startedByKubeVirt(t *testing.T, all []importCase) []started {
	t.Helper()
	out := make([]started, len(all))
	answers(t, instancetypes, all, func(n int, read *json.Decoder) error { return read.Decode(&out[n]) })
	return out
}

// answers sends each case to a program of KubeVirt's code, and reads its answers.
func answers[T any](t *testing.T, program func() (string, error), all []T, read func(int, *json.Decoder) error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var stdin, stdout, stderr bytes.Buffer
	write := json.NewEncoder(&stdin)
	for _, c := range all {
		if err := write.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(path)
	command.Stdin, command.Stdout, command.Stderr = &stdin, &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	decoder := json.NewDecoder(&stdout)
	for n := range all {
		if err := read(n, decoder); err != nil {
			t.Fatal(err)
		}
	}
}
