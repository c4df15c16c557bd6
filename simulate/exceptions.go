package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// LabelException is the label of proposed exceptions for VMs that no existing labels identify.
const LabelException = "virtwright.dev/exception"

// A Proposal is an exception that VMs need before a preset is enforced.
type Proposal struct {
	Exception v1alpha1.PresetException
	VMs       []string
	// Label is true if the VMs still need the label that the exception selects.
	Label bool
	// Shared is true if VMs that are created later may have the labels that the exception selects.
	Shared bool
}

// LabelValue returns the value of LabelException for the VMs of the proposal.
func (p Proposal) LabelValue() string {
	const longest = 63
	return strings.TrimRight(p.Exception.Name[:min(len(p.Exception.Name), longest)], "-.")
}

const proposedDuration = 90 * 24 * time.Hour

type proposer struct {
	*Cluster
	candidates []*presets.Compiled
	// vms has the labels that selectors see, by namespace and name of the VM.
	vms map[string]map[string]labels.Set
	// needs has the VMs that need an exception, by namespace and preset Ref.
	needs map[string]map[string][]string
}

// Propose returns the exceptions that VMs need before the presets of files are enforced. Without an
// exception, a reapply would reject the VM or overrule a value of its author. Presets in mode Warn
// and Audit are treated as Enforce. Notes name the VMs that are rejected regardless.
func Propose(ctx context.Context, files, cluster []manifest.Object, settings Settings) (out []Proposal, notes []string, err error) {
	settings.Reapply = true
	enforced, err := Enforce(files)
	if err != nil {
		return nil, nil, err
	}
	c, err := NewCluster(ctx, Replace(cluster, enforced, settings.Namespace), settings)
	if err != nil {
		return nil, nil, err
	}
	p := &proposer{Cluster: c, vms: map[string]map[string]labels.Set{}, needs: map[string]map[string][]string{}}
	for _, o := range enforced {
		id, role := identify(o, settings.Namespace)
		if found, ok := c.snapshot.Lookup(id.namespace, id.presetName().Ref); ok && role == preset {
			p.candidates = append(p.candidates, found)
		}
	}
	notes = slices.Concat(c.Notes, c.Unlabelled(nil))
	for _, m := range c.VMs {
		if m.Kind != presets.VirtualMachine {
			continue
		}
		rejection, err := p.check(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		if rejection != "" {
			notes = append(notes, m.String()+" is rejected independent of these presets: "+rejection)
		}
	}
	return p.proposals(), notes, nil
}

// Enforce returns the objects with presets in mode Enforce instead of Warn and Audit.
func Enforce(objects []manifest.Object) ([]manifest.Object, error) {
	out := slices.Clone(objects)
	for i, o := range out {
		var object map[string]any
		if !IsPreset(o) || kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &object) != nil {
			continue // reported later
		}
		spec, _ := object["spec"].(map[string]any)
		if mode := spec["mode"]; mode != string(v1alpha1.ModeWarn) && mode != string(v1alpha1.ModeAudit) {
			continue
		}
		spec["mode"] = string(v1alpha1.ModeEnforce)
		var err error
		if out[i].JSON, err = json.Marshal(object); err != nil {
			return nil, fmt.Errorf("%s: cannot change the mode: %w", o.Where, err)
		}
	}
	return out, nil
}

// check returns the reason if the VM is rejected independent of the presets.
func (p *proposer) check(ctx context.Context, m VM) (rejection string, err error) {
	if err := p.addLabels(ctx, m); err != nil {
		return "", err
	}
	var except []string
	for {
		problems, overruling, err := p.outcome(ctx, m, except)
		if err != nil {
			return "", err
		}
		more := overruling
		if len(problems) > 0 {
			if more, err = p.culprits(ctx, m, except, len(problems)); err != nil {
				return "", err
			}
		}
		if len(more) == 0 {
			for _, ref := range except {
				if p.needs[m.Namespace] == nil {
					p.needs[m.Namespace] = map[string][]string{}
				}
				p.needs[m.Namespace][ref] = append(p.needs[m.Namespace][ref], m.Name)
			}
			if len(problems) > 0 {
				rejection = problems[0].String()
			}
			return rejection, nil
		}
		except = append(except, more...)
	}
}

func (p *proposer) culprits(ctx context.Context, m VM, except []string, problems int) ([]string, error) {
	var out []string
	for _, c := range p.candidates {
		if !c.Cluster() && c.Namespace != m.Namespace || slices.Contains(except, c.Ref) {
			continue
		}
		fewer, _, err := p.outcome(ctx, m, append(slices.Clone(except), c.Ref))
		if err != nil {
			return nil, err
		}
		if len(fewer) < problems {
			out = append(out, c.Ref)
		}
	}
	return out, nil
}

// outcome returns problems or, if there are none, the candidates that overrule the author.
func (p *proposer) outcome(ctx context.Context, m VM, except []string) (problems []Problem, overruling []string, err error) {
	all := []*presets.Exception{{Namespace: m.Namespace, Presets: except}}
	for _, e := range p.exceptions {
		all = append(all, e.Exception)
	}
	with := *p.Cluster
	with.snapshot = p.snapshot.WithExceptions(all, time.Now)
	x, err := with.explain(ctx, m)
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return problemsOf(rejection.Problems), nil, nil
	}
	if err != nil {
		return nil, nil, m.rejection(err)
	}
	for _, o := range x.Fields {
		if o.Overruled && !slices.Contains(overruling, o.By.Preset) && p.isCandidate(m, o.By.Preset) {
			overruling = append(overruling, o.By.Preset)
		}
	}
	return nil, overruling, nil
}

func (p *proposer) isCandidate(m VM, ref string) bool {
	return slices.ContainsFunc(p.candidates, func(c *presets.Compiled) bool {
		return c.Ref == ref && (c.Cluster() || c.Namespace == m.Namespace)
	})
}

// addLabels records the labels that the author of a VM set. Selectors see only these.
func (p *proposer) addLabels(ctx context.Context, m VM) error {
	x, err := presets.ExplainStored(p.request(ctx, m))
	if err != nil {
		return m.rejection(err)
	}
	set := labels.Set{}
	for _, root := range []provenance.Path{provenance.Of("metadata", "labels"), provenance.Of("spec", "template", "metadata", "labels")} {
		for _, o := range x.Fields {
			value := o.Value
			if o.Overruled {
				value = o.Was
			}
			if text, ok := value.(string); ok && o.Path.HasPrefix(root) && len(o.Path) == len(root)+1 && (o.User || o.Overruled) {
				set[o.Path[len(root)].Name] = text
			}
		}
	}
	if p.vms[m.Namespace] == nil {
		p.vms[m.Namespace] = map[string]labels.Set{}
	}
	p.vms[m.Namespace][m.Name] = set
	return nil
}

func (p *proposer) proposals() []Proposal {
	var out []Proposal
	until := metav1.NewTime(time.Now().Add(proposedDuration).UTC().Truncate(24 * time.Hour))
	for _, namespace := range slices.Sorted(maps.Keys(p.needs)) {
		for _, ref := range slices.Sorted(maps.Keys(p.needs[namespace])) {
			vms := slices.Sorted(slices.Values(p.needs[namespace][ref]))
			e := v1alpha1.PresetException{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindPresetException},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.freeName(namespace, ref)},
				Spec: v1alpha1.PresetExceptionSpec{
					Presets: []string{ref}, Reason: "existed before the preset was enforced", Until: &until,
				},
			}
			out = append(out, proposal(e, p.vms[namespace], vms))
		}
	}
	return out
}

func proposal(e v1alpha1.PresetException, all map[string]labels.Set, vms []string) Proposal {
	out := Proposal{Exception: e, VMs: vms}
	selector := &out.Exception.Spec.VMSelector
	if key := identifying(all, vms); key != "" {
		if selector.MatchLabels = (labels.Set{key: vms[0]}); len(vms) > 1 {
			*selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: vms}}}
		}
		return out
	}
	selector.MatchLabels = selecting(all, vms)
	out.Label = selector.MatchLabels == nil
	_, own := selector.MatchLabels[LabelException]
	out.Shared = !out.Label && !own
	if out.Label {
		selector.MatchLabels = labels.Set{LabelException: out.LabelValue()}
	}
	return out
}

// identifying returns the first key of a label whose value is the name of each of these VMs, and
// of no other VM; empty if there is none.
func identifying(all map[string]labels.Set, vms []string) string {
	for _, key := range slices.Sorted(maps.Keys(all[vms[0]])) {
		identifies := true
		for name, of := range all {
			needs := slices.Contains(vms, name)
			identifies = identifies && (needs && of[key] == name || !needs && !slices.Contains(vms, of[key]))
		}
		if identifies {
			return key
		}
	}
	return ""
}

func (p *proposer) freeName(namespace, ref string) string {
	base := strings.ReplaceAll(ref, "/", "-")
	name := base
	taken := func(e exceptionEntry) bool { return e.Namespace == namespace && e.Name == name }
	for i := 2; slices.ContainsFunc(p.exceptions, taken); i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	return name
}

// maxLabels bounds the search for a smallest selector; larger ones have no redundant label.
const maxLabels = 3

// selecting returns the fewest labels that select exactly these VMs; nil if no labels do.
func selecting(all map[string]labels.Set, vms []string) labels.Set {
	common := maps.Clone(all[vms[0]])
	maps.DeleteFunc(common, func(key, value string) bool {
		return slices.ContainsFunc(vms, func(vm string) bool { return !all[vm].Has(key) || all[vm][key] != value })
	})
	exact := func(chosen labels.Set) bool {
		selector := labels.SelectorFromSet(chosen)
		for name, of := range all {
			if !slices.Contains(vms, name) && selector.Matches(of) {
				return false
			}
		}
		return true
	}
	if len(common) == 0 || !exact(common) {
		return nil
	}
	if own := (labels.Set{LabelException: common[LabelException]}); common.Has(LabelException) && exact(own) {
		return own
	}
	keys := slices.Sorted(maps.Keys(common))
	for n := 1; n <= min(maxLabels, len(keys)); n++ {
		if chosen := smallest(common, keys, n, labels.Set{}, exact); chosen != nil {
			return chosen
		}
	}
	for _, key := range keys {
		value := common[key]
		if delete(common, key); !exact(common) {
			common[key] = value
		}
	}
	return common
}

// smallest returns the first exact choice of n more keys; nil if there is none.
func smallest(from labels.Set, keys []string, n int, chosen labels.Set, exact func(labels.Set) bool) labels.Set {
	if n == 0 {
		if exact(chosen) {
			return maps.Clone(chosen)
		}
		return nil
	}
	for i, key := range keys {
		chosen[key] = from[key]
		if out := smallest(from, keys[i+1:], n-1, chosen, exact); out != nil {
			return out
		}
		delete(chosen, key)
	}
	return nil
}
