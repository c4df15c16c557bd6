package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	"sigs.k8s.io/yaml"
)

// An updateWay is how an author updates a VM: each takes the VM from one manifest to another and
// returns what kubectl wrote to standard error.
type updateWay struct {
	name string
	// create sends the first manifest.
	create func(s *story, manifest string)
	// update sends the manifest after a change, or changes the stored object.
	update func(s *story, manifest string, change func(map[string]any)) string
	// edits says that the way starts from the stored object: what it lacks then was removed on
	// purpose.
	edits bool
}

var updateWays = []updateWay{
	{"client-side apply", kubectlWith("apply", "-f", "-"), sending("apply", "-f", "-"), false},
	{"server-side apply", kubectlWith("apply", "--server-side", "-f", "-"), sending("apply", "--server-side", "-f", "-"), false},
	{"replace", kubectlWith("create", "-f", "-"), sending("replace", "-f", "-"), false},
	{"edit", kubectlWith("create", "-f", "-"), editing, true},
	{"JSON patch", kubectlWith("create", "-f", "-"), patching, true},
}

func kubectlWith(args ...string) func(*story, string) {
	return func(s *story, manifest string) {
		GinkgoHelper()
		s.kubectl(manifest, args...)
	}
}

func sending(args ...string) func(*story, string, func(map[string]any)) string {
	return func(s *story, manifest string, change func(map[string]any)) string {
		GinkgoHelper()
		object := s.parse(manifest).Object
		change(object)
		return s.persist(func() (string, string, error) { return s.tryKubectl(toYAML(object), args...) })
	}
}

// persist runs a command again where a controller has written the status between its reading and
// its writing, and returns what it wrote to standard error.
func (s *story) persist(command func() (stdout, stderr string, err error)) string {
	GinkgoHelper()
	var out string
	Eventually(func() error {
		_, stderr, err := command()
		out = stderr
		if err != nil && !strings.Contains(err.Error(), "Conflict") && !strings.Contains(err.Error(), "the object has been modified") {
			return StopTrying("it is rejected").Wrap(err)
		}
		return err
	}).Should(Succeed())
	return out
}

// editing runs kubectl edit with an editor that writes the changed object.
func editing(s *story, _ string, change func(map[string]any)) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir() // kubectl keeps rejected manifests here
	GinkgoT().Setenv("TMPDIR", folder)
	file := filepath.Join(folder, "edited.yaml")
	GinkgoT().Setenv("KUBE_EDITOR", "cp "+file)
	return s.persist(func() (string, string, error) {
		object := s.get(virtualMachine, "web").Object
		change(object)
		Expect(os.WriteFile(file, []byte(toYAML(object)), 0o600)).To(Succeed())
		return s.tryKubectl("", "edit", "vm", "web")
	})
}

func patching(s *story, _ string, change func(map[string]any)) string {
	GinkgoHelper()
	stored := s.get(virtualMachine, "web")
	before := stored.DeepCopy().Object
	change(stored.Object)
	old, err := json.Marshal(before)
	Expect(err).NotTo(HaveOccurred())
	now, err := json.Marshal(stored.Object)
	Expect(err).NotTo(HaveOccurred())
	operations, err := jsonpatch.CreatePatch(old, now)
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(operations)
	Expect(err).NotTo(HaveOccurred())
	_, stderr := s.kubectl("", "patch", "vm", "web", "--type=json", "-p", string(patch))
	return stderr
}

func toYAML(object map[string]any) string {
	GinkgoHelper()
	out, err := yaml.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return string(out)
}

// An updateRule is one line of what updates do.
type updateRule struct {
	says string
	// presets that are there from the start, and the manifest that is created.
	presets  []string
	manifest string
	labels   map[string]any
	change   func(map[string]any)
	want     OmegaMatcher
	// warns is what kubectl shows on standard error, and edits what it shows where the way starts
	// from the stored object.
	warns, edits OmegaMatcher
}

// drop removes a field by its path in objects.
func drop(path ...string) func(map[string]any) {
	return func(object map[string]any) {
		for _, name := range path[:len(path)-1] {
			object, _ = object[name].(map[string]any)
		}
		delete(object, path[len(path)-1])
	}
}

// put sets a field by its path in objects, which it makes.
func put(value any, path ...string) func(map[string]any) {
	return func(object map[string]any) {
		for _, name := range path[:len(path)-1] {
			next, ok := object[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				object[name] = next
			}
			object = next
		}
		object[path[len(path)-1]] = value
	}
}

var updateRules = []updateRule{{
	says:     "a field that its author removes is filled again",
	presets:  []string{aPreset("sized", defaultMemory)},
	manifest: "spec: {template: {spec: {domain: {memory: {guest: 4Gi}}}}}",
	change:   drop("spec", "template", "spec", "domain", "memory"),
	want:     haveAt(memory, "2Gi"), warns: BeEmpty(),
}, {
	says:     "an override puts its value back, with a warning",
	presets:  []string{aPreset("cluster/house", overrideClass), aPreset("sized", defaultMemory)},
	manifest: "spec: {template: {spec: {hostname: web}}}",
	change:   put("mine", "spec", "template", "spec", "priorityClassName"),
	want:     haveAt(class, "vms"),
	warns:    say("Warning: preset cluster/house ", class),
}, {
	says:     "a VM with another label takes on what now matches, and loses what does not",
	presets:  []string{aPreset("big", matching("size: big", defaultCores)), aPreset("small", matching("size: small", `{defaults: {spec: {template: {spec: {hostname: tiny}}}}}`))},
	manifest: "spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}",
	labels:   map[string]any{"size": "big"},
	change:   put("small", "metadata", "labels", "size"),
	want:     And(haveAt(cores, int64(1)), haveAt("spec.template.spec.hostname", "tiny")), warns: BeEmpty(),
}, {
	says:     "an added exclude takes defaults away",
	presets:  []string{aPreset("big", defaultCores)},
	manifest: "spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}",
	change:   put("big", "metadata", "annotations", "virtwright.dev/exclude"),
	want:     haveAt(cores, int64(1)), warns: BeEmpty(),
}, {
	says:     "a preset's field that is removed comes back; who removed it from the stored VM learns of exclude",
	presets:  []string{aPreset("big", defaultCores)},
	manifest: "spec: {template: {spec: {hostname: web, domain: {memory: {guest: 1Gi}}}}}",
	change: func(object map[string]any) {
		drop("spec", "template", "spec", "domain", "cpu", "cores")(object)
		put("other", "spec", "template", "spec", "hostname")(object)
	},
	want: And(haveAt(cores, int64(4)), haveAt("spec.template.spec.hostname", "other")), warns: BeEmpty(),
	edits: say("Warning: preset big sets " + cores + " again; to exclude it, add big:" + cores + " to virtwright.dev/exclude"),
}, {
	says: "storage that a preset gave stays, with a warning that says how to remove it",
	presets: []string{aPreset("disks", matching("size: big", `{defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: sata}}]}},
volumes: [{name: root, containerDisk: {image: "example.com/os:1"}}]}}}}}`)), aPreset("sized", defaultMemory)},
	labels: map[string]any{"size": "big", "team": "blue"},
	change: drop("metadata", "labels", "size"),
	want:   And(haveDisks("root"), haveAt("spec.template.spec.volumes[root].containerDisk.image", "example.com/os:1")),
	warns:  say("Warning: spec.template.spec.volumes[root] stays", "virtwright.dev/reapply removes it"),
}, {
	says:     "run state that is left out stays as it is",
	presets:  []string{aPreset("sized", defaultMemory)},
	manifest: "spec: {runStrategy: Manual, template: {spec: {domain: {}}}}",
	change: func(object map[string]any) {
		drop("spec", "runStrategy")(object)
		put("web", "spec", "template", "spec", "hostname")(object)
	},
	want: And(haveAt("spec.runStrategy", "Manual"), haveAt("spec.template.spec.hostname", "web")), warns: BeEmpty(),
}}

var _ = Describe("However a VM is updated,", func() {
	for _, rule := range updateRules {
		for _, w := range updateWays {
			It(rule.says+", by "+w.name, func() {
				s := newStory()
				for _, p := range rule.presets {
					s.preset(p)
				}
				sent := s.parse(sparse("web", rule.manifest)).Object
				if rule.labels != nil {
					put(rule.labels, "metadata", "labels")(sent)
				}
				manifest := toYAML(sent)
				w.create(s, manifest)
				s.observed("web")
				stderr := w.update(s, manifest, rule.change)
				want := rule.warns
				if w.edits && rule.edits != nil {
					want = rule.edits
				}
				Expect(slices.DeleteFunc(lines(stderr), cannotBoot)).To(want)
				Expect(s.get(virtualMachine, "web")).To(rule.want)
			})
		}
	}

	for _, w := range updateWays {
		It("fields that became forbidden may stay, but not grow, by "+w.name, func() {
			s := newStory()
			manifest := vm("web", `spec: {template: {spec: {domain: {devices: {watchdog: {name: dog, i6300esb: {action: reset}}}}}}}`)
			w.create(s, manifest)
			s.observed("web")
			s.preset(aPreset("cluster/strict", `{forbid: [{path: spec.template.spec.domain.devices.watchdog, message: no watchdogs}, {path: spec.template.spec.domain.devices.rng, message: no rng}]}`))
			w.update(s, manifest, put("web", "spec", "template", "spec", "hostname"))
			Expect(s.get(virtualMachine, "web")).To(haveAt("spec.template.spec.hostname", "web"))
			s.observed("web")
			failure := InterceptGomegaFailure(func() {
				w.update(s, manifest, put(map[string]any{}, "spec", "template", "spec", "domain", "devices", "rng"))
			})
			if w.name == "edit" { // kubectl shows the reason in the editor
				Expect(failure).To(MatchError(ContainSubstring(`"web" is invalid`)))
				return
			}
			Expect(failure).To(MatchError(And(ContainSubstring("spec.template.spec.domain.devices.rng: Forbidden: no rng"), ContainSubstring("cluster/strict"))))
		})
	}
})
