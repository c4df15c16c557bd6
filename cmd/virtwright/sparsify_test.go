package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/golden"
)

var givenPresets = []string{"-f", examplePresets, "-f", exampleNamespaces}

// TestSparsifyExamples makes the full VMs of the examples sparse, and expands them again.
func TestSparsifyExamples(t *testing.T) {
	full := call(t, "", append([]string{"expand", "-f", exampleVMs}, givenPresets...)...).fine(t)
	sparsify := func(text string, more ...string) outcome {
		return call(t, text, append(append([]string{"sparsify", "-f", "-"}, givenPresets...), more...)...).fine(t)
	}
	left := sparsify(full.out)
	golden.Equal(t, "testdata/sparsify/examples.out.yaml", left.out)
	golden.Equal(t, "testdata/sparsify/table.out.txt", sparsify(full.out, "-o", "table").out)
	golden.Stale(t, "testdata/sparsify/*.out.*")
	if again := sparsify(left.out); again.out != left.out {
		t.Errorf("a second time (-once, +twice):\n%s", cmp.Diff(left.out, again.out))
	}
	expanded := call(t, left.out, append([]string{"expand", "-f", "-", "-o", "json"}, givenPresets...)...).fine(t)
	want := call(t, full.out, append([]string{"expand", "-f", "-", "-o", "json"}, givenPresets...)...).fine(t)
	record := regexp.MustCompile(`(?m)"virtwright.dev/provenance": .*$`)
	if diff := cmp.Diff(record.ReplaceAllString(want.out, ""), record.ReplaceAllString(expanded.out, "")); diff != "" {
		t.Errorf("they expand to something else (-full, +sparse):\n%s", diff)
	}
	says(t, sparsify(full.out, "-o", "diff").out, "\n-        machine:\n-          type: q35\n")
}

// TestSparsifySameQuantity: a quantity that a preset writes differently stays. The table says why.
func TestSparsifySameQuantity(t *testing.T) {
	given := `
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: size}
spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 4096Mi}, devices: {}}}}}
`
	out := call(t, given, "sparsify", "-f", "-", "-o", "table").fine(t).out
	says(t, out, "spec.template.spec.domain.memory.guest   1     cluster/size writes the same quantity differently")
}

const storedVM = `# Our shop
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
  namespace: default
  uid: 6a1c1b9e-5f0f-4d4a-9a4e-0a1b2c3d4e5f
  resourceVersion: "7"
  generation: 3
  ownerReferences:
  - {apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, name: web, uid: 1, controller: true}
  finalizers:
  - kubevirt.io/virtualMachineControllerFinalize
  - example.com/mine
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    kubevirt.io/latest-observed-api-version: v1
    kubevirt.io/storage-observed-api-version: v1
spec:
  runStrategy: Always # it serves customers
  template:
    metadata:
      creationTimestamp: null
    spec:
      domain:
        cpu:
          cores: 7
        devices: {}
        memory:
          guest: "3Gi" # measured
status:
  ready: true
`

// TestSparsifyWrite changes files, and keeps the text of what stays.
func TestSparsifyWrite(t *testing.T) {
	preset := write(t, "cores.yaml", cores)
	file := write(t, "web.yaml", storedVM)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	got := call(t, "", "sparsify", "-f", link, "-f", preset, "--write").fine(t)
	says(t, got.out, "default     web    6        3      others 2, cores 1", `metadata.finalizers`)
	want := `# Our shop
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
  namespace: default
  finalizers:
  - example.com/mine
spec:
  runStrategy: Always # it serves customers
  template:
    spec:
      domain:
        memory:
          guest: "3Gi" # measured
`
	if text := read(t, file); text != want {
		t.Errorf("%s", cmp.Diff(want, text))
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode().IsRegular() {
		t.Errorf("the link is a file: %v", err)
	}
	for _, test := range []struct{ text, says string }{
		{"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(sparse, "\n", "\n  "), "is an item of a list"},
		{"a: &x {}\n" + storedVM, "unknown field"},
	} {
		file := write(t, "vm.yaml", test.text)
		if got := call(t, "", "sparsify", "-f", file, "-f", preset, "--write"); got.code == exitFine || !strings.Contains(got.err, test.says) {
			t.Errorf("exit code %d: %s", got.code, got.err)
		}
		if read(t, file) != test.text {
			t.Errorf("changed: %s", read(t, file))
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("other files: %v %v", left, err)
	}
	unknown := write(t, "vm.yaml", sparse)
	says(t, call(t, "", "sparsify", "-f", unknown, "-f", examplePresets, "--write").err, "--write needs all that presets read: the labels of namespace default are unknown")
	if read(t, unknown) != sparse {
		t.Error("it is written although labels are unknown")
	}
	says(t, call(t, sparse, "sparsify", "-f", "-", "-f", preset, "--write").err, "VirtualMachine default/vm is of standard input: name files with VMs in -f")
	says(t, call(t, sparse, "sparsify", "-f", "-", "-f", preset, "--write", "-o", "json").err, "--write and -o are mutually exclusive")
}

// TestSparsifyCorpus finds the sparse form of manifests of other projects. The command checks it.
func TestSparsifyCorpus(t *testing.T) {
	corpus := os.Getenv("VIRTWRIGHT_CORPUS")
	if corpus == "" {
		t.Skip("VIRTWRIGHT_CORPUS names no folder")
	}
	for _, mode := range []string{modeStandalone, modeAddon} {
		got := call(t, "", "sparsify", "-f", corpus, "-f", examplePresets, "--mode", mode, "-o", "table")
		if strings.Contains(got.err, "cannot be made sparse") || strings.Count(got.out, "\n") < 30 {
			t.Errorf("%s: %s\n%s", mode, got.out, got.err)
		}
	}
}

// TestSparsifyController leaves out what KubeVirt's controllers write to a running VMI of no VM,
// and to a VM of a pool.
func TestSparsifyController(t *testing.T) {
	const meta = "uid: 11111111-2222-4333-8444-555555555555, resourceVersion: '1'"
	vmi := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a, " + meta +
		", finalizers: [kubevirt.io/foregroundDeleteVirtualMachine], labels: {kubevirt.io/nodeName: node-1, app: shop}}\nspec: {domain: {memory: {guest: 1Gi}}}\n"
	pooled := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: b, " + meta + ", labels: {kubevirt.io/vm-pool-revision-name: b-1}}\n" +
		"spec: {runStrategy: Halted, template: {metadata: {labels: {kubevirt.io/vm-pool-revision-name: b-1}}, spec: {domain: {memory: {guest: 1Gi}}}}}\n"
	for _, mode := range []string{"standalone", "addon"} {
		got := call(t, vmi+"---\n"+pooled, "sparsify", "-f", "-", "--mode", mode).fine(t).out
		for _, key := range []string{"nodeName", "finalizers", "pool"} {
			if strings.Contains(got, key) {
				t.Errorf("%s: %s stays in:\n%s", mode, key, got)
			}
		}
		says(t, got, "app: shop")
	}
}
