package offline

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
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// LabelException is the label by which a proposed exception selects VMs that no labels of their own
// tell from others.
const LabelException = "virtwright.dev/exception"

// A Proposal is an exception that VMs need before a preset is enforced.
type Proposal struct {
	Exception v1alpha1.PresetException
	// VMs are the names of the VMs.
	VMs []string
	// Label says that the VMs do not have the label that the exception selects.
	Label bool
}

// proposedDuration is how long proposed exceptions last.
const proposedDuration = 90 * 24 * time.Hour

// A proposer finds out which VMs need exceptions from presets.
type proposer struct {
	*Cluster
	// candidates are the presets that are to be enforced.
	candidates []*presets.Compiled
	// vms are the labels of all VMs, as selectors see them, by namespace and name.
	vms map[string]map[string]labels.Set
	// needs are the VMs that need an exception, by namespace and Ref of the preset.
	needs map[string]map[string][]string
}

// Propose returns the exceptions that VMs need before the presets of files are enforced: the presets
// would refuse these VMs, or overrule a value of their author, after a reapply. Presets in mode Warn
// and Audit are judged as Enforce. Notes say which VMs are refused anyway.
func Propose(ctx context.Context, files, cluster []manifest.Object, settings Settings) (out []Proposal, notes []string, err error) {
	settings.Reapply = true
	enforced, err := enforce(files)
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
		ref := id.name
		if o.Kind == v1alpha1.KindClusterVirtualMachinePreset {
			ref = "cluster/" + id.name
		}
		if found, ok := c.snapshot.Lookup(id.namespace, ref); ok && role == preset {
			p.candidates = append(p.candidates, found)
		}
	}
	notes = slices.Concat(c.Notes, c.Unlabelled())
	for _, m := range c.Machines {
		if m.Kind != presets.VirtualMachine {
			continue
		}
		refusal, err := p.judge(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		if refusal != "" {
			notes = append(notes, m.String()+" is refused whatever these presets do: "+refusal)
		}
	}
	return p.proposals(), notes, nil
}

// enforce gives presets in mode Warn and Audit the mode Enforce.
func enforce(objects []manifest.Object) ([]manifest.Object, error) {
	out := slices.Clone(objects)
	for i, o := range out {
		var object map[string]any
		if !IsPreset(o) || kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &object) != nil {
			continue // what cannot be read is refused later
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

// judge notes from which presets a VM needs exceptions. It says why the VM is refused anyway, if it is.
func (p *proposer) judge(ctx context.Context, m Machine) (refusal string, err error) {
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
				return problems[0].String(), nil
			}
			return "", nil
		}
		except = append(except, more...)
	}
}

// culprits are the presets without which a VM has fewer problems.
func (p *proposer) culprits(ctx context.Context, m Machine, except []string, problems int) ([]string, error) {
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

// outcome is what refuses a VM, if presets are excepted; and if nothing does, which candidates
// overrule its author.
func (p *proposer) outcome(ctx context.Context, m Machine, except []string) (problems []Problem, overruling []string, err error) {
	own := &presets.Exception{Namespace: m.Namespace, Presets: except}
	all := []*presets.Exception{own}
	for _, e := range p.exceptions {
		all = append(all, e.Exception)
	}
	with := *p.Cluster
	with.snapshot = p.snapshot.WithExceptions(all, time.Now)
	x, err := with.explain(ctx, m)
	if refusal, ok := errors.AsType[*presets.Refusal](err); ok {
		return problemsOf(refusal.Problems), nil, nil
	}
	if err != nil {
		return nil, nil, m.refusal(err)
	}
	for _, o := range x.Fields {
		if o.Overruled && !slices.Contains(overruling, o.By.Preset) && p.isCandidate(m, o.By.Preset) {
			overruling = append(overruling, o.By.Preset)
		}
	}
	return nil, overruling, nil
}

func (p *proposer) isCandidate(m Machine, ref string) bool {
	return slices.ContainsFunc(p.candidates, func(c *presets.Compiled) bool {
		return c.Ref == ref && (c.Cluster() || c.Namespace == m.Namespace)
	})
}

// addLabels notes the labels of a VM that its author wrote, which are those that selectors see.
func (p *proposer) addLabels(ctx context.Context, m Machine) error {
	x, err := presets.ExplainStored(p.request(ctx, m))
	if err != nil {
		return m.refusal(err)
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

// proposals are the exceptions, by namespace and preset.
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
			chosen := selecting(p.vms[namespace], vms)
			none := chosen == nil
			if none {
				chosen = labels.Set{LabelException: strings.TrimRight(e.Name[:min(len(e.Name), 63)], "-.")}
			}
			e.Spec.VMSelector.MatchLabels = chosen
			out = append(out, Proposal{e, vms, none})
		}
	}
	return out
}

// freeName is a name for an exception that no other in the namespace has.
func (p *proposer) freeName(namespace, ref string) string {
	name := strings.ReplaceAll(ref, "/", "-")
	taken := func(name string) bool {
		return slices.ContainsFunc(p.exceptions, func(e exceptionEntry) bool { return e.Namespace == namespace && e.Name == name })
	}
	for i := 2; taken(name); i++ {
		name = fmt.Sprintf("%s-%d", strings.ReplaceAll(ref, "/", "-"), i)
	}
	return name
}

// maxLabels is how many labels of a smallest selector are looked for. Beyond that, none is redundant.
const maxLabels = 3

// selecting returns the fewest labels, at least one, that select exactly these VMs of all; nil if
// none do.
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

// smallest returns the first choice of n more of the keys that is exact; nil if there is none.
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
