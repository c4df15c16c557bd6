package presets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Launches reports whether any preset acts when VMIs are created.
func (s *Snapshot) Launches() bool { return s.launches }

func (c *Compiled) launching() bool {
	return c.ApplyAt == v1alpha1.ApplyAtLaunch && c.Mode == v1alpha1.ModeEnforce
}

// Launch returns the JSON of the VMI that a VM would have if it started now. Req is about the VM,
// as it is or will be stored. The error is a *Rejection or a *Malformed.
func (e *Engine) Launch(ctx context.Context, s *Snapshot, req Request) ([]byte, error) {
	s = s.For(req)
	launch, err := launchRequest(req)
	if err != nil {
		return nil, err
	}
	result, err := e.Resolve(ctx, s, launch)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result.Object())
}

// LaunchSources returns the sources in the record of the VMI that Launch returns, with what an
// instancetype and a preference of KubeVirt give it, even if presets would reject it.
func (e *Engine) LaunchSources(ctx context.Context, s *Snapshot, req Request) ([]provenance.Source, error) {
	vm, err := decode("object", req.Object)
	if err != nil {
		return nil, err
	}
	of := Request{Kind: req.Kind, Object: req.Object, Decoded: vm, Namespace: req.Namespace}
	if req.Instancetypes != nil {
		of.Decoded, _, _ = ExpandInstancetype(vm, req.Instancetypes)
	}
	launch, err := launchRequest(of)
	if err != nil {
		return nil, err
	}
	x, err := e.unjudged(ctx, s.For(of), launch)
	if err != nil {
		return nil, err
	}
	return x.record.Sources, nil
}

// Sources returns the sources in the records of a new object and, for a VM, of its VMI, even if
// presets would reject them.
func (e *Engine) Sources(ctx context.Context, s *Snapshot, req Request) ([]provenance.Source, error) {
	x, err := e.unjudged(ctx, s.For(req), req)
	if err != nil {
		return nil, err
	}
	if req.Kind != VirtualMachine || !s.launches {
		return x.record.Sources, nil
	}
	if err := x.annotate(); err != nil {
		return nil, err
	}
	if req.Object, err = json.Marshal(x.unwrap()); err != nil {
		return nil, err
	}
	launched, err := e.LaunchSources(ctx, s, req)
	return slices.Concat(x.record.Sources, launched), err
}

// unjudged expands a new object without a verdict.
func (e *Engine) unjudged(ctx context.Context, s *Snapshot, req Request) (*expansion, error) {
	r, err := loadDecoded(req.Kind, req.Object, req.Decoded)
	if err != nil {
		return nil, err
	}
	x, err := e.prepare(ctx, s, r, req)
	if err != nil {
		return nil, err
	}
	e.apply(x)
	return x, nil
}

// ExplainLaunch explains the VMI that Launch returns.
func (e *Engine) ExplainLaunch(ctx context.Context, s *Snapshot, req Request) (*Explanation, error) {
	s = s.For(req)
	launch, err := launchRequest(req)
	if err != nil {
		return nil, err
	}
	return e.Explain(ctx, s, launch)
}

func launchRequest(req Request) (Request, error) {
	vm, err := req.Decoded, error(nil)
	if vm == nil {
		vm, err = decode("object", req.Object)
	}
	if err != nil {
		return Request{}, err
	}
	if problems := checkRequiredParents(vm); len(problems) > 0 {
		return Request{}, &Rejection{Problems: problems}
	}
	instance := vmiOf(vm)
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false) // six bytes for one
	if err := encoder.Encode(instance); err != nil {
		return Request{}, &Malformed{What: "object", Err: err}
	}
	copied := tree.AsObject(tree.Clone(instance))
	return Request{Kind: VirtualMachineInstance, Object: raw.Bytes(), Decoded: copied, Namespace: req.Namespace, Owner: req.Object}, nil
}

// vmiOf returns the VMI of a VM, as a lifecycle controller creates it.
func vmiOf(vm map[string]any) map[string]any {
	from := tree.AsObject(vmschema.Value(vm, vmschema.Template))
	meta := map[string]any{}
	copyFields(meta, tree.AsObject(from["metadata"]), "labels", "annotations")
	copyFields(meta, tree.AsObject(vm["metadata"]), "name", "namespace")
	out := map[string]any{"apiVersion": vm["apiVersion"], "kind": string(VirtualMachineInstance), "metadata": meta}
	copyFields(out, from, "spec")
	return out
}

// LaunchKeepsTemplate reports whether Launch would return the VM's template without changes, apart
// from the record and the maxima of CPU and memory hotplug. It may report false if that is
// expensive to find out. Vm is decoded JSON and stays as it is.
func (e *Engine) LaunchKeepsTemplate(s *Snapshot, vm map[string]any, namespace Namespace) bool {
	meta, templated := tree.AsObject(vm["metadata"]), tree.AsObject(vmschema.Value(vm, vmschema.TemplateMetadata))
	if s.rollouts != nil && s.launches {
		return false
	}
	if steers(meta) || steers(templated) || s.mayLaunch(meta, templated, namespace) {
		return false
	}
	if e.Platform == nil {
		return true
	}
	r, err := newMergeState(VirtualMachineInstance, vmiOf(vm))
	if err != nil {
		return false
	}
	r.dryRun = true
	r.applyPlatform(e.Platform)
	return !r.wouldSet
}

func steers(meta map[string]any) bool {
	annotations := tree.AsObject(meta["annotations"])
	return annotations[v1alpha1.AnnotationPresets] != nil || annotations[v1alpha1.AnnotationExclude] != nil
}

// mayLaunch reports whether selectors allow a preset to act on the VMI. It ignores conditions.
func (s *Snapshot) mayLaunch(meta, templated map[string]any, namespace Namespace) bool {
	if !s.launches {
		return false
	}
	q := &query{
		labels: matchLabels(meta["labels"], templated["labels"]), templateLabels: matchLabels(templated["labels"]),
		namespace: namespace, hasOwner: true, isVMI: true,
	}
	found := false
	keep := func(c *Compiled) { found = found || c.launching() && q.selects(c) }
	s.candidates(q.labels, namespace, keep)
	return found
}

// An ownerVM is the VM that controls a VMI, from the request.
type ownerVM struct {
	root   map[string]any
	record *provenance.Record
}

// adoptOwner reads the VM that controls the VMI, and records which of the VMI's fields virtwright
// set in that VM. They are replaceable, so that Launch presets can win over them.
func (r *mergeState) adoptOwner(raw []byte) (*ownerVM, error) {
	if len(raw) == 0 || r.sentVMI == nil {
		return nil, nil
	}
	r.owner = raw
	root, err := decode("owner", raw)
	if err != nil {
		return nil, err
	}
	if problems := checkRequiredParents(root); len(problems) > 0 {
		return nil, &Rejection{Problems: problems}
	}
	stored := readable(provenance.Decode(tree.AsText(vmschema.Value(root, provenanceOn(VirtualMachine)))))
	o := &ownerVM{root: root, record: cmp.Or(stored, provenance.New())}
	for p, n := range o.record.Decided() {
		if p.HasPrefix(vmschema.Template) && len(p) > len(vmschema.Template) {
			r.inherit(o, p, o.record.Sources[n.Source])
		}
	}
	r.inheritedSources = len(r.record.Sources)
	r.indexElements(r.record.Root(), r.root, vmschema.VM())
	return o, nil
}

// inherit records that s decided p on the VM, unless the controller changed the field.
func (r *mergeState) inherit(o *ownerVM, p provenance.Path, s provenance.Source) {
	was, is := vmschema.Value(o.root, p), vmschema.Value(r.root, p)
	if is == nil && s.Role != provenance.Remove || is != nil && !tree.Equal(was, is) {
		return
	}
	from, at := o.record.At(p), r.record.Set(p, r.addSource(s, nil))
	at.Replaceable, at.Overruled, at.TooLarge, at.UserValue = true, from.Overruled, from.TooLarge, from.UserValue
}

func (r *mergeState) indexElements(n *provenance.Node, v any, s *vmschema.Schema) {
	for c := range n.Children() {
		var next any
		switch at := v.(type) {
		case map[string]any:
			next = at[c.Name]
		case []any:
			if i := vmschema.IndexOf(at, s.Keys, c.Name); i >= 0 {
				c.Index, next = int32(i), at[i]
			}
		}
		if step := s.Step(c.Segment()); step != nil {
			r.indexElements(c, next, step)
		}
	}
}

// view returns the VMI as the user wrote it, with the labels and annotations of the VM.
func (o *ownerVM) view(r *mergeState) map[string]any {
	view := tree.AsObject(tree.Clone(r.root))
	keepUserIntent(view, r.record)
	vm := map[string]any{"metadata": tree.Clone(o.root["metadata"])}
	keepUserIntent(vm, o.record)
	copyFields(tree.AsObject(view["metadata"]), tree.AsObject(vm["metadata"]), "labels", "annotations")
	return view
}

// provenanceOn returns the path of the record annotation, in VM form.
func provenanceOn(kind Kind) provenance.Path {
	if kind == VirtualMachineInstance {
		return vmschema.TemplateAnnotations.Field(v1alpha1.AnnotationProvenance)
	}
	return vmAnnotations.Field(v1alpha1.AnnotationProvenance)
}
