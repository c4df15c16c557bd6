package simulate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/simulate/policies"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// Settings are the configuration that a real cluster would have.
type Settings struct {
	// Engine is configured like the manager's.
	Engine *presets.Engine
	// Namespace of objects without one.
	Namespace string
	// NamespaceLabels are added to every namespace.
	NamespaceLabels map[string]string
	// Owner is the JSON of the VM that controls the VMIs of the input; may be empty.
	Owner []byte
	// Fields sets how unknown fields are handled.
	Fields FieldValidation
	// Reapply treats stored VMs as updates that request a reapply.
	Reapply bool
	// Live is true if presets are also read from a cluster.
	Live bool
	// Rules are configured like the manager's.
	Rules *validation.Config
	// Memory may keep compiled presets for the next cluster; nil keeps none.
	Memory *Memory
}

// A Cluster simulates a cluster with the presets, VMs and namespaces of the input.
type Cluster struct {
	VMs []VM
	// Presets is the number of presets.
	Presets int
	// Notes name ignored objects. Those of Open are in Left.
	Notes []string
	Left  []Leftover

	settings      Settings
	snapshot      *presets.Snapshot
	exceptions    []exceptionEntry
	profiles      *domain.Profiles
	namespaces    map[string]*corev1.Namespace
	instancetypes instancetypes
	policies      *policies.Set
	// bound are the names of policies with a binding.
	bound       []string
	webhooks    *webhooks.Server
	seen        map[string]manifest.Position
	firsts      func() map[string]manifest.Position // of the VMs of the input
	validatedIn map[string]bool
	// preset is true if the input has a preset, even a rejected one.
	preset bool
	// incomplete are VMs without required values, which a preset could give.
	incomplete []string
	existing   *existingVMs
	selecting  []*presets.Compiled
	rollouts   []*v1alpha1.PresetRollout
}

// standalone reports whether virtwright replaces KubeVirt in the cluster.
func (c *Cluster) standalone() bool { return c.settings.Engine.Platform != nil }

// A VM is a VirtualMachine or a VirtualMachineInstance of the input.
type VM struct {
	Where     manifest.Position
	Kind      presets.Kind
	Namespace string
	Name      string
	// JSON is the object as a webhook receives it, converted to version v1.
	JSON []byte
	// Sent is the object as written in the input.
	Sent []byte
	// old is the JSON of the stored VM that JSON updates; nil for a VM that is created.
	old         []byte
	entry       *entry
	noNamespace bool
	version     string
}

// String returns kind, namespace and name.
func (m VM) String() string { return nameIn(string(m.Kind), m.Namespace, m.Name, "") }

// NewCluster compiles presets. The error joins a *Rejection for each rejected object.
func NewCluster(ctx context.Context, objects []manifest.Object, settings Settings) (*Cluster, error) {
	return buildCluster(ctx, objects, settings, false)
}

// buildCluster ignores invalid stored presets and profiles; with old, all invalid ones.
func buildCluster(ctx context.Context, objects []manifest.Object, settings Settings, old bool) (*Cluster, error) {
	kinds := rejectLone
	if old {
		kinds = rejectNone
	}
	entries, left, err := sorted(objects, kinds)
	if err != nil {
		return nil, err
	}
	c := newCluster(settings)
	for _, l := range left {
		c.Notes = append(c.Notes, l.String())
	}
	problems := c.fill(ctx, entries)
	for i, err := range problems {
		rejection, ok := errors.AsType[*Rejection](err)
		switch {
		case ok && rejection.Stored:
			c.Notes, problems[i] = append(c.Notes, rejection.inactive()), nil
		case ok && old && entries[i].role != vmOrVMI:
			c.Notes, problems[i] = append(c.Notes, rejection.leftOut()), nil
		}
	}
	return c, errors.Join(problems...)
}

func newCluster(settings Settings) *Cluster {
	c := &Cluster{
		settings: settings, namespaces: map[string]*corev1.Namespace{}, instancetypes: instancetypes{},
		seen: map[string]manifest.Position{}, validatedIn: map[string]bool{}, existing: newExistingVMs(),
	}
	c.firsts = sync.OnceValue(func() map[string]manifest.Position {
		out := map[string]manifest.Position{}
		for _, m := range slices.Backward(c.VMs) {
			out[m.String()] = m.Where
		}
		return out
	})
	return c
}

// duplicate rejects a VM of the input if an earlier one has its name.
func (c *Cluster) duplicate(m VM) error {
	if first, has := c.firsts()[m.String()]; has && first != m.Where && !unnamed(m.Name) {
		return m.rejected([]Problem{duplicateName(m.Name, first)})
	}
	return nil
}

// DecodeVM reads the VM or VMI of a document that was not passed to NewCluster.
func (c *Cluster) DecodeVM(d manifest.Document) (VM, error) {
	objects, err := d.Objects()
	if err != nil {
		return VM{}, err
	}
	entries, _, err := sorted(objects, rejectNamed)
	if err != nil {
		return VM{}, err
	}
	if len(entries) != 1 || entries[0].role != vmOrVMI {
		return VM{}, fmt.Errorf("%s: is no VM", d.Where)
	}
	return c.newVM(entries[0])
}

func (c *Cluster) newVM(e *entry) (VM, error) {
	m := VM{Where: e.Where, Kind: presets.Kind(e.Kind), Sent: e.JSON, entry: e, noNamespace: e.meta.Namespace == "", version: e.APIVersion}
	if err := e.place(c.settings.Namespace); err != nil {
		return m, err
	}
	if err := e.convert(c.standalone()); err != nil {
		return m, err
	}
	m.JSON, m.Namespace, m.Name = e.JSON, e.meta.Namespace, e.meta.Name
	if bytes.Contains(m.JSON, []byte("null")) { // defaults nulls like an API server; other errors are reported later
		if object, err := m.decode(m.JSON); err == nil && presets.CheckSchema(m.Kind, object).Default() {
			if m.JSON, err = json.Marshal(object); err != nil {
				return m, err
			}
		}
	}
	if m.Name == "" && e.meta.GenerateName != "" {
		m.Name = e.meta.GenerateName + "*"
	}
	return m, nil
}

func (c *Cluster) namespace(name string) presets.Namespace {
	out := presets.Namespace{Name: name, Labels: map[string]string{}}
	if known := c.namespaces[name]; known != nil {
		maps.Copy(out.Labels, known.Labels)
		out.Annotations = known.Annotations
	}
	maps.Copy(out.Labels, c.settings.NamespaceLabels)
	out.Labels[corev1.LabelMetadataName] = name
	return out
}

// namespaceObject returns a namespace as policies see it, with the defaults of an API server.
func (c *Cluster) namespaceObject(name string) *corev1.Namespace {
	out := &corev1.Namespace{}
	if known := c.namespaces[name]; known != nil {
		out = known.DeepCopy()
	}
	out.Name, out.Labels = name, c.namespace(name).Labels
	out.Status.Phase = cmp.Or(out.Status.Phase, corev1.NamespaceActive)
	if len(out.Spec.Finalizers) == 0 {
		out.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	}
	return out
}

// Unlabelled returns a note for each namespace whose unknown labels matter to a selector of a
// policy, or of a preset that affects a field at or beneath a path.
func (c *Cluster) Unlabelled(under provenance.Path) []string {
	var names []string
	for _, preset := range c.selecting {
		if slices.ContainsFunc(preset.Actions(), func(a presets.Action) bool {
			return a.Path.HasPrefix(under[:min(len(under), len(a.Path))])
		}) {
			names = append(names, preset.Ref)
		}
	}
	return append(c.unlabelled(c.vmNamespaces(), "preset", "presets", names), c.unlabelledPolicies()...)
}

func (c *Cluster) unlabelledPolicies() []string {
	return c.unlabelled(c.vmNamespaces(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicies", c.policies.NamespaceSelectors())
}

func (c *Cluster) vmNamespaces() []string {
	of := slices.Collect(maps.Keys(c.validatedIn))
	for _, m := range c.VMs {
		of = append(of, m.Namespace)
	}
	return of
}

func (c *Cluster) unlabelled(of []string, one, many string, names []string) []string {
	if len(names) == 0 || len(c.settings.NamespaceLabels) > 0 {
		return nil
	}
	who := listed(many, names) + " select"
	if len(names) == 1 {
		who = one + " " + names[0] + " selects"
	}
	var out []string
	slices.Sort(of)
	for _, name := range slices.Compact(of) {
		if _, known := c.namespaces[name]; !known {
			out = append(out, fmt.Sprintf("the labels of namespace %s are unknown, but %s namespaces by label: add the Namespace to -f, or set --namespace-labels",
				name, who))
		}
	}
	return out
}

func listed(kind string, names []string) string {
	const most = 3
	if len(names) > most+1 {
		return fmt.Sprintf("%s and %d more %s", strings.Join(names[:most], ", "), len(names)-most, kind)
	}
	return kind + " " + strings.Join(names, ", ")
}

type loaded[T any] struct{ snapshot *T }

// Snapshot returns the snapshot.
func (l loaded[T]) Snapshot() *T { return l.snapshot }

type namespaces struct{ *Cluster }

// Get returns a namespace. Every namespace exists.
func (n namespaces) Get(_ context.Context, name string) (presets.Namespace, error) {
	return n.namespace(name), nil
}

// owner is the JSON of the VM that controls every VMI; empty for none.
type owner []byte

// Of returns the VM.
func (o owner) Of(context.Context, string, []byte) ([]byte, error) { return o, nil }

func (c *Cluster) server() *webhooks.Server {
	s := &webhooks.Server{
		Engine: c.settings.Engine, Rules: c.settings.Rules, Guard: protection.Guard{Addon: c.settings.Rules.Addon, Manager: manager},
		Snapshots: loaded[presets.Snapshot]{c.snapshot}, Profiles: loaded[domain.Profiles]{c.profiles},
		Namespaces: namespaces{c}, Owners: owner(c.settings.Owner), Names: c.existing,
	}
	if s.Guard.Addon {
		s.Instancetypes = c.instancetypes
	}
	return s
}

func (c *Cluster) request(ctx context.Context, m VM) presets.Request {
	r := presets.Request{Kind: m.Kind, Object: m.JSON, Namespace: c.namespace(m.Namespace)}
	r.Instancetypes = func(matcher presets.Matcher) (map[string]any, error) {
		return c.instancetypes.Spec(ctx, m.Namespace, matcher)
	}
	r.OldObject = m.old
	if m.Kind == presets.VirtualMachineInstance {
		r.Owner = c.settings.Owner
	}
	return r
}

// Expand returns the VM as a cluster would store it, and the warnings for the user.
func (c *Cluster) Expand(ctx context.Context, m VM) (object map[string]any, warnings []string, err error) {
	if m.isStored() && !c.settings.Reapply {
		if object, err = m.decode(m.JSON); err != nil {
			return nil, nil, err
		}
		if mistyped := presets.CheckSchema(m.Kind, object).Mistyped; len(mistyped) > 0 { // no API server has stored it
			return nil, nil, m.rejected(problemsOf(m.inVersion(mistyped)))
		}
		return c.asSent(m, object), nil, nil
	}
	v, err := c.created(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	return c.asSent(m, v.object), v.Warnings, nil
}

// stored returns a VM as a cluster would store it. Stored VMs only change with Reapply.
func (c *Cluster) stored(ctx context.Context, m VM) (raw []byte, warnings []string, err error) {
	if m.isStored() && !c.settings.Reapply {
		return m.JSON, nil, nil
	}
	v, err := c.created(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	return v.stored, v.Warnings, nil
}

// created validates and expands a VM. The error is a *Rejection if the VM is rejected.
func (c *Cluster) created(ctx context.Context, m VM) (*Verdict, error) {
	v := m.entry.verdict()
	if err := c.validate(ctx, m, &v); err != nil {
		return nil, err
	}
	if len(v.Problems) > 0 {
		return nil, m.rejected(v.Problems)
	}
	return &v, nil
}

// asSent converts the object to the version of the input and removes what the input does not set:
// the namespace, and the placeholder user as the requester of a template.
func (c *Cluster) asSent(m VM, object map[string]any) map[string]any {
	if m.version == conversion.V1Alpha2 {
		if converted, err := conversion.Convert(object, m.version); err == nil { // it was converted from this version
			object = converted
		}
	}
	meta, annotations := metadataOf(object)
	switch {
	case !m.isStored():
		delete(annotations, v1alpha1.AnnotationTemplateRequester)
	case c.settings.Reapply:
		m.withoutReapply(object)
	}
	if m.noNamespace {
		delete(meta, "namespace")
	}
	return object
}
