package offline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// Settings are what a real cluster would know by itself.
type Settings struct {
	// Engine is configured as the manager configures its own.
	Engine *presets.Engine
	// Namespace of objects that name none.
	Namespace string
	// NamespaceLabels of every namespace, beside those in Namespace objects.
	NamespaceLabels map[string]string
	// Owner is the JSON of the VM that controls the instances; may be empty.
	Owner []byte
	// Fields says what to do about fields that do not exist.
	Fields FieldValidation
	// Reapply treats stored VMs as updates that ask for a reapply.
	Reapply bool
	// Live says that presets are read from a cluster, too.
	Live bool
	// Rules are configured as the manager configures its own.
	Rules *validation.Config
}

// A Cluster is what files say: presets, machines, namespaces.
type Cluster struct {
	Machines []Machine
	// Presets are how many presets were found.
	Presets int
	// Notes tell what was left out.
	Notes []string

	settings   Settings
	snapshot   *presets.Snapshot
	exceptions []exceptionEntry
	profiles   *domain.Profiles
	namespaces map[string]presets.Namespace
	// instancetypes and preferences of KubeVirt.
	instancetypes instancetypes
	// webhooks judge machines.
	webhooks *webhooks.Server
	// seen says where each machine stands that was judged.
	seen map[string]manifest.Position
	// judged are the namespaces of machines that were judged.
	judged map[string]bool
	// preset says that the files have a preset, which may be refused.
	preset bool
	// lacking are the machines that lack what a preset could give.
	lacking []lackingMachine
	// others are the machines that were judged.
	others *others
	// selecting are the presets that choose namespaces by label.
	selecting []string
}

// A Machine is a VirtualMachine or VirtualMachineInstance as it was sent.
type Machine struct {
	Where manifest.Position
	Kind  presets.Kind
	// Namespace in which it would be created.
	Namespace string
	Name      string
	// JSON is the object as the API server would give it to a webhook: in
	// version v1, if it was sent in one of another form.
	JSON []byte
	// Sent is the object as it stands in the file.
	Sent  []byte
	entry *entry
	// placed says that the file does not name the namespace.
	placed bool
	// version is the apiVersion of what was sent.
	version string
}

// String is kind, namespace and name.
func (m Machine) String() string { return nameIn(string(m.Kind), m.Namespace, m.Name, "") }

// NewCluster sorts objects and compiles presets. The error joins a *Refusal for
// every object that a cluster would not take.
func NewCluster(ctx context.Context, objects []manifest.Object, settings Settings) (*Cluster, error) {
	entries, left, err := sorted(objects, true)
	if err != nil {
		return nil, err
	}
	c := newCluster(settings)
	for _, l := range left {
		c.Notes = append(c.Notes, l.String())
	}
	problems := c.fill(ctx, entries)
	for i, err := range problems {
		if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Stored {
			c.Notes, problems[i] = append(c.Notes, refusal.inactive()), nil
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return c, nil
}

func newCluster(settings Settings) *Cluster {
	return &Cluster{
		settings: settings, namespaces: map[string]presets.Namespace{}, instancetypes: instancetypes{},
		seen: map[string]manifest.Position{}, judged: map[string]bool{}, others: newOthers(),
	}
}

// fill takes entries in. It returns an error, or nil, for each of them.
func (c *Cluster) fill(ctx context.Context, entries []*entry) []error {
	p := &presetReader{ctx: ctx, rules: c.settings.Rules, seen: map[string]manifest.Position{}, legacy: c.settings.Engine.Platform != nil}
	problems := make([]error, len(entries))
	for i, e := range entries {
		problems[i] = c.take(e, p)
	}
	c.Notes = append(c.Notes, p.notes...)
	c.Presets, c.selecting, c.exceptions = len(p.compiled), p.selecting, p.exceptions
	c.snapshot = p.withExceptions(presets.NewSnapshot(p.compiled, p.broken), c.preset || c.settings.Live)
	c.profiles, _ = domain.CompileProfiles(p.frontend, p.backend) // each was judged when it was read
	c.webhooks = c.server()
	return problems
}

func (c *Cluster) take(e *entry, p *presetReader) error {
	switch e.role {
	case namespace:
		c.namespaces[e.meta.Name] = presets.Namespace{Name: e.meta.Name, Labels: e.meta.Labels, Annotations: e.meta.Annotations}
		return nil
	case instancetype:
		return c.instancetypes.add(e, c.settings.Namespace)
	case preset, legacyPreset, profile, exception:
		c.preset = c.preset || e.role == preset || e.role == legacyPreset
		return p.read(e, c.settings.Namespace)
	default:
		m, err := c.machine(e)
		if err == nil {
			c.Machines = append(c.Machines, m)
		}
		return err
	}
}

// Machine is a VM or a VMI of a document that NewCluster was not given.
func (c *Cluster) Machine(d manifest.Document) (Machine, error) {
	objects, err := d.Objects()
	if err != nil {
		return Machine{}, err
	}
	entries, _, err := sorted(objects, true)
	if err != nil {
		return Machine{}, err
	}
	if len(entries) != 1 || entries[0].role != machine {
		return Machine{}, fmt.Errorf("%s: is no VM", d.Where)
	}
	return c.machine(entries[0])
}

func (c *Cluster) machine(e *entry) (Machine, error) {
	m := Machine{Where: e.Where, Kind: presets.Kind(e.Kind), Sent: e.JSON, entry: e, placed: e.meta.Namespace == "", version: e.APIVersion}
	if err := e.place(c.settings.Namespace); err != nil {
		return m, err
	}
	if err := e.convert(c.settings.Engine.Platform != nil); err != nil {
		return m, err
	}
	m.JSON, m.Namespace, m.Name = e.JSON, e.meta.Namespace, e.meta.Name
	if m.Name == "" && e.meta.GenerateName != "" {
		m.Name = e.meta.GenerateName + "*"
	}
	return m, nil
}

// namespace is what is known of a namespace.
func (c *Cluster) namespace(name string) presets.Namespace {
	known := c.namespaces[name]
	labels := map[string]string{}
	maps.Copy(labels, known.Labels)
	maps.Copy(labels, c.settings.NamespaceLabels)
	labels[corev1.LabelMetadataName] = name
	return presets.Namespace{Name: name, Labels: labels, Annotations: known.Annotations}
}

// Unlabelled notes which namespaces of machines have unknown labels although presets
// select by them.
func (c *Cluster) Unlabelled() []string {
	of := slices.Collect(maps.Keys(c.judged))
	for _, m := range c.Machines {
		of = append(of, m.Namespace)
	}
	return c.unlabelled(of)
}

func (c *Cluster) unlabelled(of []string) []string {
	if len(c.selecting) == 0 || len(c.settings.NamespaceLabels) > 0 {
		return nil
	}
	var out []string
	slices.Sort(of)
	for _, name := range slices.Compact(of) {
		if _, known := c.namespaces[name]; !known {
			out = append(out, fmt.Sprintf("the labels of namespace %s are unknown, but %s select namespaces by label: add the Namespace to -f, or set --namespace-labels",
				name, listed(c.selecting)))
		}
	}
	return out
}

// listed names the first few.
func listed(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more presets", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "presets " + strings.Join(names, ", ")
}

// loaded is a snapshot that stays as it is.
type loaded[T any] struct{ snapshot *T }

// Snapshot is the snapshot.
func (l loaded[T]) Snapshot() *T { return l.snapshot }

// namespaces are those of a cluster.
type namespaces struct{ *Cluster }

// Get returns a namespace, and never an error: every namespace exists.
func (n namespaces) Get(_ context.Context, name string) (presets.Namespace, error) {
	return n.namespace(name), nil
}

// owner is the JSON of the VM that controls every instance; empty for none.
type owner []byte

// Of returns the VM.
func (o owner) Of(context.Context, string, []byte) ([]byte, error) { return o, nil }

// server has the webhooks of the cluster.
func (c *Cluster) server() *webhooks.Server {
	s := &webhooks.Server{
		Engine: c.settings.Engine, Rules: c.settings.Rules, Guard: protection.Guard{Addon: c.settings.Rules.Addon, Manager: manager},
		Snapshots: loaded[presets.Snapshot]{c.snapshot}, Profiles: loaded[domain.Profiles]{c.profiles},
		Namespaces: namespaces{c}, Owners: owner(c.settings.Owner), Names: c.others,
	}
	if s.Guard.Addon {
		s.Instancetypes = c.instancetypes
	}
	return s
}

// request asks the engine about a machine.
func (c *Cluster) request(ctx context.Context, m Machine) presets.Request {
	r := presets.Request{Kind: m.Kind, Object: m.JSON, Namespace: c.namespace(m.Namespace)}
	r.Instancetypes = func(matcher presets.Matcher) (map[string]any, error) {
		return c.instancetypes.Spec(ctx, m.Namespace, matcher)
	}
	if m.Kind == presets.VirtualMachineInstance {
		r.Owner = c.settings.Owner
	}
	return r
}

// Expand returns the machine as a cluster would store it, and the warnings that the
// person who creates it would read.
func (c *Cluster) Expand(ctx context.Context, m Machine) (object map[string]any, warnings []string, err error) {
	if m.isStored() && !c.settings.Reapply {
		object, err = m.decode(m.JSON)
		return c.asSent(m, object), nil, err
	}
	v, err := c.created(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	return c.asSent(m, v.object), v.Warnings, nil
}

// stored is the JSON of a machine as a cluster would store it, with all warnings. A
// machine that a cluster has stored is as it is, unless presets are to be reapplied.
func (c *Cluster) stored(ctx context.Context, m Machine) (raw []byte, warnings []string, err error) {
	if m.isStored() && !c.settings.Reapply {
		return m.JSON, nil, nil
	}
	v, err := c.created(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	return v.stored, v.Warnings, nil
}

// created judges a machine. The error is a *Refusal if it is refused.
func (c *Cluster) created(ctx context.Context, m Machine) (*Verdict, error) {
	v := m.entry.verdict()
	if err := c.judge(ctx, m, &v); err != nil {
		return nil, err
	}
	if len(v.Problems) > 0 {
		return nil, m.refused(v.Problems)
	}
	return &v, nil
}

// asSent turns the object into the version that was sent, and takes out again what
// the file does not say: the namespace, and anybody as the requester of a template.
func (c *Cluster) asSent(m Machine, object map[string]any) map[string]any {
	if m.version == conversion.V1Alpha2 {
		if converted, err := conversion.Convert(object, m.version); err == nil { // as it was before
			object = converted
		}
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	switch {
	case !m.isStored():
		delete(annotations, v1alpha1.AnnotationTemplateRequester)
	case c.settings.Reapply:
		m.withoutReapply(object)
	}
	if m.placed {
		delete(meta, "namespace")
	}
	return object
}
