package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/golden"
)

// learnedFleet are VMs of two sizes.
func learnedFleet() string {
	var out strings.Builder
	for _, name := range []string{"db-1", "db-2", "db-3", "db-4", "web-1", "web-2", "web-3", "web-4"} {
		size, memory := "small", "2Gi"
		if strings.HasPrefix(name, "db") {
			size, memory = "large", "16Gi"
		}
		out.WriteString("---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", namespace: shop, labels: {size: " + size + "}}\n" +
			"spec: {runStrategy: Always, template: {spec: {hostname: " + name + ", domain: {cpu: {cores: 2}, memory: {guest: " + memory + "}, devices: {rng: {}, disks: [{name: root, disk: {bus: virtio}}]}}, " +
			"volumes: [{name: root, persistentVolumeClaim: {claimName: " + name + "-root}}]}}}\n")
	}
	return out.String()
}

// TestLearn learns presets, writes them with sparse VMs, and expands these with the presets.
func TestLearn(t *testing.T) {
	given := learnedFleet()
	out := call(t, given, "learn", "-f", "-").fine(t)
	golden.Equal(t, "testdata/learn/presets.out.yaml", out.out)
	folder := filepath.Join(t.TempDir(), "fleet")
	golden.Equal(t, "testdata/learn/table.out.txt", call(t, given, "learn", "-f", "-", "--write", folder).fine(t).out)
	golden.Equal(t, "testdata/learn/vm.out.yaml", read(t, filepath.Join(folder, "vms", "shop", "db-1.yaml")))
	golden.Stale(t, "testdata/learn/*.out.*")

	enforced := filepath.Join(t.TempDir(), "presets.yaml")
	if err := os.WriteFile(enforced, []byte(strings.ReplaceAll(out.out, "mode: Audit", "mode: Enforce")), 0o600); err != nil {
		t.Fatal(err)
	}
	now := call(t, "", "expand", "-f", filepath.Join(folder, "vms"), "-f", enforced, "-o", "json").fine(t)
	before := call(t, given, "expand", "-f", "-", "-o", "json").fine(t)
	record := regexp.MustCompile(`(?m)"annotations": \{\s*"virtwright.dev/provenance": .*\s*\},?$`)
	if diff := cmp.Diff(record.ReplaceAllString(before.out, ""), record.ReplaceAllString(now.out, "")); diff != "" {
		t.Errorf("VMs expand to something else (-before, +now):\n%s", diff)
	}
}

// TestLearnProposesLabels: commands label VMs that have values in common, and with these labels
// presets give the values.
func TestLearnProposesLabels(t *testing.T) {
	given := regexp.MustCompile(`, labels: \{[^}]*\}`).ReplaceAllString(learnedFleet(), "")
	given = strings.ReplaceAll(given, "memory: {guest: 16Gi}", "memory: {guest: 16Gi, maxGuest: 32Gi}, ioThreadsPolicy: auto")
	before := totalOf(t, given)
	script := call(t, given, "learn", "-f", "-", "--propose-labels").fine(t).out
	golden.Equal(t, "testdata/labels.out.txt", script)

	for command := range strings.Lines(script) {
		words := strings.Fields(command)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		key, value, _ := strings.Cut(words[len(words)-1], "=")
		for _, name := range words[len(strings.Fields("kubectl label virtualmachines.kubevirt.io -n shop")) : len(words)-1] {
			given = strings.ReplaceAll(given, "{name: "+name+", namespace: shop", "{name: "+name+", labels: {"+key+`: "`+value+`"}, namespace: shop`)
		}
	}
	after := totalOf(t, given)
	if promised := fmt.Sprintf("need %d fields fewer", before-after); before <= after || !strings.Contains(script, promised) {
		t.Errorf("%d fields before, %d with the labels of\n%s", before, after, script)
	}
	says(t, call(t, learnedFleet(), "learn", "-f", "-", "--propose-labels").err, "none is proposed")
}

// TestLearnAlternatives: presets that no VM has together, but a future one may, do not conflict.
func TestLearnAlternatives(t *testing.T) {
	var given strings.Builder
	for i := range 10 {
		label, fields := "app: rhel", "clock: {utc: {}}, firmware: {bootloader: {bios: {}}}"
		if i < 5 {
			label, fields = "tier: win", "clock: {timezone: Europe/Zurich}, firmware: {bootloader: {efi: {secureBoot: false}}}"
		}
		fmt.Fprintf(&given, "---\n{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm-%d, namespace: shop, labels: {%s}}, "+
			"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 4Gi}, %s, devices: {}}}}}}\n", i, label, fields)
	}
	learned := call(t, given.String(), "learn", "-f", "-", "--mode", "addon").fine(t).out
	call(t, strings.ReplaceAll(learned, "mode: Audit", "mode: Enforce"), "lint", "-f", "-", "--mode", "addon").fine(t)
}

// TestLearnUnusualFields: of many VMs with one memory, the one with another is shown, and not one
// that writes the same memory differently.
func TestLearnUnusualFields(t *testing.T) {
	var given strings.Builder
	for i := range 45 {
		name, memory := fmt.Sprintf("vm-%d", i), "4Gi"
		switch i {
		case 3:
			memory = "4096Mi"
		case 7:
			memory = "512Mi"
		}
		given.WriteString("---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: " + memory + "}, devices: {}}}}}\n")
	}
	_, unusual, _ := strings.Cut(call(t, given.String(), "learn", "-f", "-", "-o", "table").fine(t).out, "UNUSUAL-FIELD")
	if !strings.Contains(unusual, "vm-7 ") || strings.Contains(unusual, "vm-3 ") {
		t.Errorf("got these unusual fields, want memory of vm-7 alone:\n%s", unusual)
	}
}

// totalOf learns presets for VMs, and returns the number of fields of these and of sparse VMs.
func totalOf(t *testing.T, vms string) (out int) {
	t.Helper()
	table := call(t, vms, "learn", "-f", "-", "-o", "table").fine(t).out
	for _, row := range []string{"fields of sparse VMs", "presets with their conditions and fields"} {
		found := regexp.MustCompile(row + ` +(\d+)`).FindStringSubmatch(table)
		if found == nil {
			t.Fatalf("no %q in\n%s", row, table)
		}
		n, _ := strconv.Atoi(found[1])
		out += n
	}
	return out
}

// TestLearnRejects names wrong flags and input, and writes nothing.
func TestLearnRejects(t *testing.T) {
	exists := t.TempDir()
	folder := filepath.Join(exists, "fleet")
	for _, test := range []struct {
		text string
		args []string
		want string
	}{
		{learnedFleet(), []string{"--min-support", "1"}, "--min-support 1: must be 2 or more"},
		{learnedFleet(), []string{"--max-presets", "-1"}, "--max-presets -1: must be 0 or more"},
		{learnedFleet(), []string{"--write", exists}, "exists: name a new folder"},
		{learnedFleet(), []string{"--write", folder, "-o", "yaml"}, "--write and -o are mutually exclusive"},
		{learnedFleet(), []string{"--propose-labels", "-o", "yaml"}, "--propose-labels prints commands"},
		{learnedFleet(), []string{"--write", filepath.Join(exists, "no", "fleet")}, "/no is not a folder: create it first"},
		{"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", nil, "no VirtualMachine or VirtualMachineInstance in -f -"},
	} {
		out := call(t, test.text, append([]string{"learn", "-f", "-"}, test.args...)...)
		if out.code == 0 {
			t.Errorf("%v: exit code 0", test.args)
		}
		says(t, out.err, test.want)
	}
	if left, err := os.ReadDir(exists); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
