package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/webhooks"
)

// An ImportReport is the result of an import.
type ImportReport struct {
	Items []fleet.Imported
	VMs   []ConvertedVM
	// Unused counts instancetypes and preferences of the cluster that no VM names. Others counts
	// policies that concern no VM.
	Unused, Others int
	// Notes name ignored objects.
	Notes []string
	// Rejected has an error for each object that a cluster would reject.
	Rejected []error
}

// A ConvertedVM is a VM with the result of its conversion.
type ConvertedVM struct {
	fleet.Converted
	// Name is kind, namespace and name.
	Name  string
	Where manifest.Position
}

// Import converts legacy presets, instancetypes, preferences and policies to presets, and compares
// how VMs start before and after; policies apply to both, as presets. From a cluster, only
// instancetypes and preferences that a VM names are imported.
func Import(ctx context.Context, objects []manifest.Object, settings Settings, labelPrefix string) (*ImportReport, error) {
	policies, objects := policiesOf(objects, settings.Namespace)
	entries, left, err := sorted(objects, rejectMisspelt)
	if err != nil {
		return nil, err
	}
	in := &importer{
		ctx: ctx, settings: settings, named: instancetypes{}, seen: map[string]manifest.Position{},
		source: fleet.ImportSource{LabelPrefix: labelPrefix, Standalone: settings.Engine.Platform != nil, Policies: policies},
	}
	for _, l := range left {
		in.report.Notes = append(in.report.Notes, l.String())
	}
	in.source.Check = in.check
	slices.SortStableFunc(entries, func(a, b *entry) int { return order(a) - order(b) })
	for _, e := range entries {
		if err := in.read(e); err != nil {
			in.report.Rejected = append(in.report.Rejected, err)
		}
	}
	in.report.Rejected = append(in.report.Rejected, in.otherPresets(entries)...)
	made := fleet.NewImport(ctx, in.source)
	in.report.Items, in.report.Others = made.Items, made.OtherPolicies
	for _, vm := range in.vms {
		c, err := made.Convert(ctx, vm.object, in.cluster.namespace(vm.entry.meta.Namespace))
		if err != nil {
			return nil, fmt.Errorf("%s: cannot convert %s: %w", vm.entry.Where, vm.entry.ref(), err)
		}
		in.report.VMs = append(in.report.VMs, ConvertedVM{c, vm.entry.ref(), vm.entry.Where})
	}
	return &in.report, ctx.Err()
}

// policiesOf separates the policies of other engines.
func policiesOf(objects []manifest.Object, namespace string) (policies []fleet.Policy, others []manifest.Object) {
	for _, o := range objects {
		e := &entry{Object: o}
		p := e.asPolicy()
		if !fleet.ImportsPolicy(p.Kind) {
			others = append(others, o)
			continue
		}
		e.readMeta()
		p.Name, p.Namespace = e.meta.Name, cmp.Or(e.meta.Namespace, namespace)
		policies = append(policies, p)
	}
	return policies, others
}

func (e *entry) asPolicy() fleet.Policy {
	kind := schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind()
	return fleet.Policy{Kind: kind, Namespace: e.meta.Namespace, Name: e.meta.Name, JSON: e.JSON}
}

// otherPresets returns the errors of rejected presets; clusters ignore invalid stored ones.
func (in *importer) otherPresets(entries []*entry) []error {
	in.cluster = newCluster(in.settings)
	entries = slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return e.role != preset && e.role != exception && e.role != namespace })
	rejected := slices.DeleteFunc(in.cluster.fill(in.ctx, entries), func(err error) bool {
		of, ok := errors.AsType[*Rejection](err)
		return err == nil || ok && of.Stored
	})
	in.source.Others, in.source.Now = slices.Collect(in.cluster.snapshot.All()), time.Now
	for _, e := range in.cluster.exceptions {
		in.source.Exceptions = append(in.source.Exceptions, e.Exception)
	}
	return rejected
}

// order puts VMs first, because they determine which instancetypes are used.
func order(e *entry) int {
	if e.role == vmOrVMI {
		return 0
	}
	return 1
}

type importer struct {
	ctx      context.Context
	settings Settings
	source   fleet.ImportSource
	// cluster has the presets, exceptions and namespaces of the input.
	cluster *Cluster
	vms     []importedVM
	// named are the instancetypes and preferences that VMs reference, by kind and name.
	named  instancetypes
	seen   map[string]manifest.Position
	report ImportReport
}

type importedVM struct {
	entry  *entry
	object map[string]any
}

func (in *importer) read(e *entry) error {
	if e.role != vmOrVMI && e.role != legacyPreset && e.role != instancetype {
		return nil
	}
	if err := e.prepare(in.settings.Namespace); err != nil {
		return err
	}
	if first, again := in.seen[e.ref()]; again && !unnamed(e.meta.Name) {
		return e.rejected([]Problem{duplicateName(e.meta.Name, first)})
	}
	in.seen[e.ref()] = e.Where
	switch e.role {
	case legacyPreset:
		return in.legacy(e)
	case instancetype:
		return in.contributor(e)
	default:
		return in.vm(e)
	}
}

// legacy adds a legacy preset that the validating webhook accepts.
func (in *importer) legacy(e *entry) error {
	reader := &presetReader{ctx: in.ctx, legacy: true}
	object := &kubevirtv1.VirtualMachineInstancePreset{}
	problems := reader.compileLegacy(e)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, object); err != nil && len(problems) == 0 {
		return err
	}
	if len(problems) > 0 {
		return e.rejected(problems)
	}
	in.source.Legacy = append(in.source.Legacy, object)
	return nil
}

func (in *importer) contributor(e *entry) error {
	one := instancetypes{}
	if err := one.add(e); err != nil {
		return err
	}
	name := types.NamespacedName{Namespace: e.meta.Namespace, Name: e.meta.Name}
	if _, used := in.named[e.Kind][name]; !used && e.Where.Document == 0 {
		in.report.Unused++
		return nil
	}
	c := fleet.Contributor{Kind: e.Kind, Namespace: name.Namespace, Name: name.Name, Spec: one[e.Kind][name]}
	if c.Spec == nil {
		c.Spec = map[string]any{}
	}
	if e.meta.UID != "" {
		c.Revision = fmt.Sprintf("%s-%d", e.meta.UID, e.meta.Generation)
	}
	in.source.Contributors = append(in.source.Contributors, c)
	return nil
}

// vm adds a VM. A VMI is added as the VM that would start it.
func (in *importer) vm(e *entry) error {
	if err := e.convert(true); err != nil {
		return err
	}
	object, err := e.decode()
	if err != nil {
		return err
	}
	if mistyped := presets.CheckSchema(presets.Kind(e.Kind), object).Mistyped; len(mistyped) > 0 {
		return e.rejected(problemsOf(mistyped))
	}
	if e.Kind == string(presets.VirtualMachineInstance) {
		object = map[string]any{
			"apiVersion": e.APIVersion, "kind": string(presets.VirtualMachine), "metadata": map[string]any{"name": e.meta.Name, "namespace": e.meta.Namespace},
			"spec": map[string]any{"template": map[string]any{"metadata": object["metadata"], "spec": object["spec"]}},
		}
	}
	_, named, _ := presets.ExpandInstancetype(object, nil)
	for _, m := range named {
		if in.named[m.Kind] == nil {
			in.named[m.Kind] = map[types.NamespacedName]map[string]any{}
		}
		for _, namespace := range []string{"", e.meta.Namespace} {
			in.named[m.Kind][types.NamespacedName{Namespace: namespace, Name: m.Name}] = nil
		}
	}
	in.vms = append(in.vms, importedVM{e, object})
	return nil
}

func (in *importer) check(preset map[string]any) error {
	raw, err := json.Marshal(preset)
	if err != nil {
		return err
	}
	return in.settings.checkPreset(in.ctx, raw, fmt.Sprint(preset["kind"]))
}

// checkPreset returns a *Rejection if a cluster would reject a preset.
func (s Settings) checkPreset(ctx context.Context, raw []byte, kind string) error {
	e := &entry{Object: manifest.Object{JSON: raw, Kind: kind}}
	e.readMeta()
	answer := webhooks.Preset{Kind: kind, Rules: s.Rules}.Handle(ctx, creation(e))
	if answer.Allowed {
		return nil
	}
	return e.rejected(answer.Problems)
}
