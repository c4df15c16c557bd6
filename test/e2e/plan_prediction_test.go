package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

// planChanges is how many changes of presets each of four stories makes; the environment variable
// asks for more.
func planChanges() int {
	if n, err := strconv.Atoi(os.Getenv("VIRTWRIGHT_PLAN_CHANGES")); err == nil {
		return n / planStories
	}
	return 8
}

const (
	planStories = 4
	plannedVMs  = 200
	sampledVMs  = 20
)

var _ = Describe("virtwright plan", func() {
	for shard := range planStories {
		It(fmt.Sprintf("predicts what a change of presets does, field by field (%d)", shard), func() {
			seed := GinkgoRandomSeed() + int64(shard)
			GinkgoWriter.Println("seed", seed)
			g := &planGenerator{Rand: rand.New(rand.NewSource(seed)), story: newStory("tier=prod"), presets: map[string]object{}, happened: map[string]int{}}
			g.start()
			// By chance, the first changes may do nothing.
			for i := 0; i < planChanges() || len(g.happened) == 1 && i < 5*planChanges(); i++ {
				g.change(i)
			}
			AddReportEntry("VMs by what happened to them", g.happened)
			Expect(len(g.happened)).To(BeNumerically(">", 1), "no change did anything")
		})
	}
})

// A planGenerator changes presets at random, and compares what plan says with what happens.
type planGenerator struct {
	*rand.Rand
	*story
	vms []string
	// presets in the cluster, by kind and name.
	presets map[string]object
	made    int
	// happened counts VMs by what a change of presets did to them.
	happened map[string]int
	heard    warnings
	client   dynamic.Interface
}

// planLeaves are leaves of VMs, as YAML in flow style: one is chosen of each line.
var planLeaves = [][]string{
	{"template: {spec: {domain: {memory: {guest: 1Gi}}}}", "template: {spec: {domain: {memory: {guest: 2Gi}}}}", "template: {spec: {domain: {memory: {guest: 2048Mi}}}}"},
	{"template: {spec: {domain: {cpu: {cores: 2}}}}", "template: {spec: {domain: {cpu: {cores: 4, threads: 2}}}}", "template: {spec: {domain: {cpu: {sockets: 2}}}}"},
	{"template: {spec: {domain: {cpu: {model: Penryn}}}}", "template: {spec: {domain: {cpu: {model: host-passthrough}}}}"},
	{"template: {spec: {domain: {firmware: {bootloader: {bios: {}}}}}}", "template: {spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}}"},
	{"template: {spec: {domain: {devices: {rng: {}}}}}"},
	{"template: {spec: {domain: {devices: {watchdog: {name: w, i6300esb: {action: poweroff}}}}}}", "template: {spec: {domain: {devices: {watchdog: {name: w, i6300esb: {action: reset}}}}}}"},
	{"template: {spec: {domain: {clock: {utc: {}, timer: {hpet: {present: false}}}}}}", "template: {spec: {domain: {clock: {timezone: Europe/Paris}}}}"},
	{"template: {spec: {domain: {devices: {disks: [{name: a, disk: {bus: virtio}}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}}", "template: {spec: {domain: {devices: {disks: [{name: a, disk: {bus: sata}}]}}}}", "template: {spec: {domain: {devices: {disks: [{name: b, cdrom: {bus: sata}}]}}, volumes: [{name: b, containerDisk: {image: example.com/b}}]}}"},
	{"template: {spec: {domain: {devices: {inputs: [{name: t, type: tablet, bus: usb}]}}}}"},
	{"template: {spec: {terminationGracePeriodSeconds: 30}}", "template: {spec: {terminationGracePeriodSeconds: 60}}"},
	{"template: {spec: {nodeSelector: {zone: a}}}", "template: {spec: {nodeSelector: {zone: b, disk: ssd}}}"},
	{"template: {spec: {tolerations: [{key: a, operator: Exists}]}}", "template: {spec: {tolerations: [{key: b, operator: Equal, value: x}]}}"},
	{"template: {spec: {evictionStrategy: LiveMigrate}}", "template: {spec: {evictionStrategy: None}}"},
	{"template: {spec: {hostname: h}}"},
	{"template: {spec: {domain: {machine: {type: q35}}}}"},
	{"template: {metadata: {labels: {size: small}}}", "template: {metadata: {annotations: {example.com/note: x}}}"},
	{"template: {spec: {domain: {ioThreadsPolicy: auto}}}", "template: {spec: {domain: {ioThreadsPolicy: shared}}}"},
	{"runStrategy: Always", "runStrategy: Manual"},
}

// planComputed are leaves that only presets have.
var planComputed = []string{
	"template: {spec: {domain: {memory: {guest: {$cel: \"string(object.spec.template.spec.domain.?cpu.cores.orValue(1)) + 'Gi'\"}}}}}",
	"template: {spec: {hostname: {$cel: object.metadata.name}}}",
}

var planPaths = []string{
	"spec.template.spec.domain.devices.rng", "spec.template.spec.domain.devices.disks[a]", "spec.template.spec.domain.cpu.model",
	"spec.template.spec.nodeSelector.zone", "spec.template.spec.domain.devices.inputs[t]", "spec.template.spec.hostname", "spec.template.spec.tolerations",
}

// leaves are some leaves, merged.
func (g *planGenerator) leaves(most int, computed bool) map[string]any {
	out := map[string]any{}
	for range 1 + g.Intn(most) {
		line := planLeaves[g.Intn(len(planLeaves))]
		text := line[g.Intn(len(line))]
		if computed && g.Intn(8) == 0 {
			text = planComputed[g.Intn(len(planComputed))]
		}
		var leaf map[string]any
		Expect(yaml.Unmarshal([]byte("{"+text+"}"), &leaf)).To(Succeed(), text)
		mergeMaps(out, leaf)
	}
	return out
}

func mergeMaps(into, from map[string]any) {
	for name, v := range from {
		below, isMap := v.(map[string]any)
		if at, ok := into[name].(map[string]any); ok && isMap {
			mergeMaps(at, below)
			continue
		}
		into[name] = v
	}
}

// start creates VMs and presets.
func (g *planGenerator) start() {
	g.client = g.heard.client()
	for i := 0; len(g.vms) < plannedVMs; i++ {
		Expect(i).To(BeNumerically("<", 20*plannedVMs), "most VMs are rejected without presets")
		spec := g.leaves(3, false)
		if g.Intn(8) > 0 { // most VMs have memory
			memory := map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{"memory": map[string]any{"guest": "1Gi"}}}}}
			mergeMaps(memory, spec)
			spec = memory
		}
		delete(spec, "runStrategy")
		labels := map[string]any{}
		for _, key := range []string{"os", "size"} {
			if g.Intn(2) == 0 {
				labels[key] = []any{"small", "linux", "windows"}[g.Intn(3)]
			}
		}
		name := fmt.Sprintf("vm-%d", i)
		metadata := map[string]any{"name": name, "labels": labels}
		if g.Intn(10) == 0 {
			metadata["annotations"] = map[string]any{v1alpha1.AnnotationExclude: "p1, cluster/p2, *:spec.template.spec.hostname"}
		}
		raw, err := json.Marshal(map[string]any{"apiVersion": "kubevirt.io/v1", "kind": virtualMachine, "metadata": metadata, "spec": spec})
		Expect(err).NotTo(HaveOccurred())
		if _, err := g.tryCreate(string(raw)); err == nil {
			g.vms = append(g.vms, name)
		}
	}
	for range 12 {
		g.put(g.preset())
	}
}

// preset is a random preset, which may replace another one.
func (g *planGenerator) preset() object {
	name, kind := fmt.Sprintf("p%d", g.Intn(14)), preset
	if g.Intn(2) == 0 {
		kind = clusterPreset
	}
	spec := map[string]any{"priority": int64(g.Intn(3)), "mode": []any{"Enforce", "Enforce", "Enforce", "Enforce", "Enforce", "Enforce", "Warn", "Warn", "Audit", "Off"}[g.Intn(10)]}
	match := map[string]any{}
	if kind == clusterPreset {
		match["namespaces"] = map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": g.ns}}
	}
	switch g.Intn(6) {
	case 0:
		match["labels"] = map[string]any{"matchLabels": map[string]any{"os": []any{"linux", "windows"}[g.Intn(2)]}}
	case 1:
		match["labels"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "size", "operator": []any{"Exists", "DoesNotExist"}[g.Intn(2)]}}}
	case 2:
		match["conditions"] = []any{map[string]any{"name": "c", "expression": "object.?spec.template.spec.domain.cpu.cores.orValue(0) > 1"}}
	}
	spec["match"] = match
	if g.Intn(4) > 0 {
		spec["defaults"] = map[string]any{"spec": g.leaves(3, true)}
	}
	if g.Intn(3) == 0 {
		spec["overrides"] = map[string]any{"spec": g.leaves(2, true)}
	}
	if g.Intn(6) == 0 {
		spec["remove"] = []any{planPaths[g.Intn(len(planPaths))]}
	}
	if g.Intn(6) == 0 {
		spec["forbid"] = []any{map[string]any{"path": planPaths[g.Intn(len(planPaths))], "message": "not here"}}
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "virtwright.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec})
	Expect(err).NotTo(HaveOccurred())
	return g.parse(string(raw))
}

// put creates or changes a preset, unless it is rejected, and waits until it is in use.
func (g *planGenerator) put(p object) bool {
	key := p.GetKind() + p.GetName()
	var out object
	var err error
	if old := g.presets[key]; old == nil {
		out, err = g.of(p.GetKind()).Create(here.ctx, p, metav1.CreateOptions{})
		if err == nil {
			DeferCleanup(func() error {
				return ignoreNotFound(g.of(p.GetKind()).Delete(here.ctx, p.GetName(), metav1.DeleteOptions{}))
			})
		}
	} else {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() (err error) { // status is written meanwhile
			p = p.DeepCopy()
			p.SetResourceVersion(g.get(p.GetKind(), p.GetName()).GetResourceVersion())
			out, err = g.of(p.GetKind()).Update(here.ctx, p, metav1.UpdateOptions{})
			return err
		})
	}
	if err != nil {
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), err.Error())
		return false
	}
	g.presets[key] = out
	g.awaitReady(out)
	return true
}

// planReport is what plan prints.
type planReport struct {
	Groups []struct {
		Changes []fleet.Change
		VMs     []string
	}
	Rejected, Warned []struct{ Texts, VMs []string }
	Admitted         []string
}

// prediction is what plan says of one VM.
type prediction struct {
	changes          []string
	rejected, warned []string
	admitted, listed bool
}

func (r *planReport) of(vm string) prediction {
	var out prediction
	for _, group := range r.Groups {
		if slices.Contains(group.VMs, vm) {
			_, name, _ := strings.Cut(vm, "/")
			for _, text := range textsOf(group.Changes) { // plan prints names of VMs as patterns
				out.changes = append(out.changes, strings.ReplaceAll(text, `"*"`, strconv.Quote(name)))
			}
			slices.Sort(out.changes)
			out.listed = true
		}
	}
	for _, x := range r.Rejected {
		if slices.Contains(x.VMs, vm) {
			out.rejected = append(out.rejected, x.Texts...)
		}
	}
	for _, x := range r.Warned {
		if slices.Contains(x.VMs, vm) {
			out.warned = append(out.warned, x.Texts...)
		}
	}
	out.admitted = slices.Contains(r.Admitted, vm)
	return out
}

func textsOf(changes []fleet.Change) []string {
	var out []string
	for _, c := range changes {
		before, _ := json.Marshal(c.Before)
		after, _ := json.Marshal(c.After)
		out = append(out, fmt.Sprintf("%s: %s -> %s", c.Path, before, after))
	}
	slices.Sort(out)
	return out
}

// A reapplied is what a reapply made of a VM.
type reapplied struct {
	fields   []presets.Origin
	problems []presets.Problem
	warnings []string
}

// reapply asks for it as a user does.
func (g *planGenerator) reapply(vm string) reapplied {
	GinkgoHelper()
	g.made++
	g.heard.texts = nil
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, v1alpha1.AnnotationReapply, g.made)
	var out reapplied
	object, err := g.as(g.client, virtualMachine).Patch(here.ctx, vm, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	out.warnings = slices.Clone(g.heard.texts)
	if err != nil {
		status, ok := errors.AsType[*apierrors.StatusError](err)
		Expect(ok && apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", vm, err)
		for _, cause := range status.Status().Details.Causes {
			out.problems = append(out.problems, problemOf(cause))
		}
		return out
	}
	raw, err := object.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	x, err := presets.ExplainStored(presets.Request{Kind: presets.VirtualMachine, Object: raw})
	Expect(err).NotTo(HaveOccurred())
	out.fields = slices.DeleteFunc(x.Fields, func(o presets.Origin) bool {
		path := o.Path.String()
		return !strings.HasPrefix(path, "spec.") && !strings.HasPrefix(path, "metadata.labels") && !strings.HasPrefix(path, "metadata.annotations") || strings.Contains(path, v1alpha1.AnnotationReapply)
	})
	return out
}

// change makes one random change, and compares.
func (g *planGenerator) change(i int) {
	sample := map[string]reapplied{}
	for _, k := range g.Perm(len(g.vms))[:sampledVMs] {
		before := g.reapply(g.vms[k])
		if len(before.warnings) > 0 { // of changes since the last reapply, too, such as of run state
			before = g.reapply(g.vms[k])
		}
		sample[g.vms[k]] = before
	}
	args := []string{"plan", "-o", "json", "-n", g.ns, "--kubeconfig", here.kubeconfig}
	file := filepath.Join(GinkgoT().TempDir(), "presets.yaml")
	p := g.preset()
	doomed := ""
	if g.Intn(6) == 0 && len(g.presets) > 4 { // a deletion
		keys := slices.Sorted(maps.Keys(g.presets))
		doomed = keys[g.Intn(len(keys))]
		args = append(args, "--prune")
	}
	var text strings.Builder
	for key, q := range g.presets {
		if doomed != "" && key != doomed {
			text.WriteString("---\n" + manifestOf(q))
		}
	}
	if doomed == "" {
		text.WriteString(manifestOf(p))
	}
	Expect(os.WriteFile(file, []byte(text.String()), 0o600)).To(Succeed())
	var stderr strings.Builder
	command := exec.CommandContext(here.ctx, here.programs+"/virtwright", append(args, "-f", file)...)
	command.Stderr = &stderr
	out, _ := command.Output() // its exit code says that something changes
	if command.ProcessState.ExitCode() == 2 {
		Expect(g.put(p)).To(BeFalse(), "plan rejects a preset that the cluster accepts: %s", stderr.String())
		return
	}
	var report planReport
	Expect(json.Unmarshal(out, &report)).To(Succeed(), "%s%s", out, stderr.String())
	if doomed != "" {
		q := g.presets[doomed]
		Expect(g.of(q.GetKind()).Delete(here.ctx, q.GetName(), metav1.DeleteOptions{})).To(Succeed())
		delete(g.presets, doomed)
		g.awaitDeletion(q.GetKind())
	} else {
		Expect(g.put(p)).To(BeTrue(), "plan accepts a preset that the cluster rejects")
	}
	for vm, before := range sample {
		g.compare(fmt.Sprintf("change %d of %s, VM %s\n%s", i, file, vm, text.String()), report.of(g.ns+"/"+vm), before, g.reapply(vm))
	}
}

// awaitDeletion waits until replicas have seen a deletion: they see changes of one kind in order.
func (g *planGenerator) awaitDeletion(kind string) {
	g.made++
	ref := map[string]string{preset: "", clusterPreset: "cluster/"}[kind] + fmt.Sprintf("marker-%d", g.made)
	marker := g.story.preset(aPreset(ref, `{mode: "Off", defaults: {spec: {runStrategy: Always}}}`))
	Expect(g.of(kind).Delete(here.ctx, marker.GetName(), metav1.DeleteOptions{})).To(Succeed())
}

var (
	quotedValue = regexp.MustCompile(`^[A-Z][a-z ]+: ("(?:[^"\\]|\\.)*"|[^"(]*): `)
	namedRule   = regexp.MustCompile(`\(((?:preset )?[a-z0-9][a-z0-9./-]*)\)`)
)

// problemOf reads what an API server answers as a Problem.
func problemOf(cause metav1.StatusCause) presets.Problem {
	out := presets.Problem{Field: cause.Field, Message: cause.Message, Type: field.ErrorType(cause.Type)}
	if value := quotedValue.FindStringSubmatch(cause.Message); value != nil {
		out.Value = value[1]
	}
	if rules := namedRule.FindAllStringSubmatch(cause.Message, -1); rules != nil {
		out.Origin = rules[len(rules)-1][1]
	}
	return out
}

// manifestOf is a preset as people keep it in files.
func manifestOf(p object) string {
	out := map[string]any{
		"apiVersion": p.GetAPIVersion(), "kind": p.GetKind(), "spec": p.Object["spec"],
		"metadata": map[string]any{"name": p.GetName(), "namespace": p.GetNamespace()},
	}
	text, err := yaml.Marshal(out)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// compare compares a prediction with what happened.
func (g *planGenerator) compare(about string, said prediction, before, after reapplied) {
	GinkgoHelper()
	var want prediction
	switch {
	case len(after.problems) > 0:
		want.rejected = fleet.Compare(fleet.Outcome{Problems: before.problems}, fleet.Outcome{Problems: after.problems}, fleet.NoUpdates).Problems
	case len(before.problems) > 0:
		want.admitted = true
	default:
		want.changes = textsOf(fleet.Changes(before.fields, after.fields, fleet.NoUpdates))
	}
	about += fmt.Sprintf("warnings before %q\nwarnings after %q\n", before.warnings, after.warnings)
	switch { // plan leaves out the warnings of a rejected request
	case len(after.problems) > 0:
	case len(before.problems) > 0:
		want.warned = after.warnings
	default:
		want.warned = notIn(after.warnings, before.warnings)
	}
	Expect(said.changes).To(Equal(want.changes), about)
	Expect(said.rejected).To(ConsistOf(toAny(want.rejected)...), about)
	Expect(said.admitted).To(Equal(want.admitted), about)
	Expect(said.warned).To(ConsistOf(toAny(want.warned)...), about)
	for what, happened := range map[string]bool{
		"compared": true, "changed": len(want.changes) > 0, "rejected": len(want.rejected) > 0, "warned": len(want.warned) > 0, "admitted": want.admitted,
	} {
		if happened {
			g.happened[what]++
		}
	}
}

func notIn(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(known, text) })
}

func toAny(texts []string) []any {
	out := make([]any, 0, len(texts))
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}
