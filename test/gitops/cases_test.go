package gitops

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A step is an action before a sync, the content of Git then, and the stored object after it.
type step struct {
	preset string               // its spec, without a selector
	act    func(engine, string) // what happens to the VM of a name
	git    string               // a manifest of the VM NAME
	stored map[string]string    // by JSON path
}

// A story is about a VM and a preset for it, both named NAME.
type story struct {
	name  string
	steps []step
}

// JSON paths of a VM.
const (
	memory   = "{.spec.template.spec.domain.memory.guest}"
	cores    = "{.spec.template.spec.domain.cpu.cores}"
	caches   = "{.spec.template.spec.domain.devices.disks[*].cache}"
	disks    = "{.spec.template.spec.domain.devices.disks[*].name}"
	volumes  = "{.spec.template.spec.volumes[*].name}"
	strategy = "{.spec.runStrategy}"
)

// sparse is a VM as an author writes it.
const sparse = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME, namespace: default, labels: {story: NAME}}
spec:
  runStrategy: Halted
  template:
    spec:
      domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {}}]}}
      volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]
`

const (
	cache      = `defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, cache: none}]}}}}}}`
	element    = `defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: data, disk: {bus: virtio}}]}}, volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}}`
	override   = `overrides: {spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}}`
	twoGi      = `defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}`
	coresOf    = `defaults: {spec: {template: {spec: {domain: {cpu: {cores: %d}}}}}}`
	everything = `defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, cache: none}, {name: data, disk: {bus: virtio}}]}}, volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}}, ` + override
)

// stories are the rows of the tables in the pages about Argo CD and Flux.
var stories = []story{
	{"a default inside a list", []step{
		{preset: cache, git: sparse, stored: map[string]string{caches: "none"}},
	}},
	{"an added element", []step{
		{preset: element, git: sparse, stored: map[string]string{disks: "root data", volumes: "root data"}},
	}},
	{"an override of a value in Git", []step{
		{preset: override, git: sparse, stored: map[string]string{memory: "4Gi"}},
	}},
	{"`virtwright.dev/exclude` in Git", []step{
		{preset: fmt.Sprintf(coresOf, 2), git: annotated("exclude: cluster/NAME"), stored: map[string]string{cores: "1"}},
	}},
	{"a preset changed since", []step{
		{preset: fmt.Sprintf(coresOf, 2), git: sparse, stored: map[string]string{cores: "2"}},
		{preset: fmt.Sprintf(coresOf, 4), git: sparse, stored: map[string]string{cores: "2"}},
	}},
	{"`virtwright.dev/reapply` in Git", []step{
		{preset: fmt.Sprintf(coresOf, 2), git: sparse, stored: map[string]string{cores: "2"}},
		{preset: fmt.Sprintf(coresOf, 4), git: annotated(`reapply: "1"`), stored: map[string]string{cores: "4"}},
	}},
	{"`kubectl annotate vm … virtwright.dev/reapply=…`", []step{
		{preset: fmt.Sprintf(coresOf, 2), git: sparse, stored: map[string]string{cores: "2"}},
		{preset: fmt.Sprintf(coresOf, 4), act: reapply, git: sparse, stored: map[string]string{cores: "4"}},
	}},
	{"a field removed from Git", []step{
		{preset: twoGi, git: sparse, stored: map[string]string{memory: "1Gi"}},
		{git: strings.Replace(sparse, "memory: {guest: 1Gi}, ", "", 1), stored: map[string]string{memory: "2Gi"}},
	}},
	{"a VM that `kubectl create` made before", []step{
		{preset: everything, act: create, git: sparse, stored: map[string]string{memory: "4Gi", caches: "none", disks: "root data"}},
	}},
	{"`virtwright start`, without run strategy in Git", []step{
		{preset: cache, git: strings.Replace(sparse, "runStrategy: Halted", "", 1), stored: map[string]string{strategy: "Halted"}},
		{act: start, git: strings.Replace(sparse, "runStrategy: Halted", "", 1), stored: map[string]string{strategy: "Always"}},
	}},
}

// annotated is the sparse VM with an annotation of virtwright's.
func annotated(annotation string) string {
	return strings.Replace(sparse, "metadata: {", "metadata: {annotations: {virtwright.dev/"+annotation+"}, ", 1)
}

func reapply(e engine, name string) {
	e.Must("", "annotate", "vm", name, "virtwright.dev/reapply=now")
}

func create(e engine, name string) {
	e.Must(strings.ReplaceAll(sparse, "NAME", name), "create", "-f", "-")
}

// start does what virtwright start does.
func start(e engine, name string) {
	e.Eventually("start", func() error {
		path := "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/" + name + "/start"
		return e.Clients.Discovery().RESTClient().Verb(http.MethodPut).AbsPath(path).Do(e.Context()).Error()
	})
}

// prepare makes what a story needs before a sync.
func (e engine) prepare(t *testing.T, name string, s step) {
	t.Helper()
	if s.preset != "" {
		e.Must(fmt.Sprintf(`{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: %s},
			spec: {match: {labels: {matchLabels: {story: %s}}}, %s}}`, name, name, s.preset), "apply", "-f", "-")
		e.Eventually("the preset acts", func() error {
			generation := e.Must("", "get", "cvmpreset", name, "-o", "jsonpath={.metadata.generation}")
			return e.Is("cvmpreset/"+name, `{.status.conditions[?(@.type=="Ready")].status} {.status.observedGeneration}`, "True "+generation)
		})
	}
	if s.act != nil {
		s.act(e, name)
	}
}
