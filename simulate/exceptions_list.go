package simulate

import (
	"context"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// A ListedException is an exception in the output of a list.
type ListedException struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	File      string     `json:"file"`
	Presets   []string   `json:"presets"`
	Reason    string     `json:"reason"`
	Ticket    string     `json:"ticket,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	Expired   bool       `json:"expired"`
	// VMs counts the VMs that use the exception, according to its status, or else of the input; nil
	// if unknown.
	VMs      *int64     `json:"vms,omitempty"`
	LastUsed *time.Time `json:"lastUsed,omitempty"`
}

// Exceptions lists exceptions by namespace and name. Invalid exceptions are an error.
func Exceptions(ctx context.Context, objects []manifest.Object, settings Settings) ([]ListedException, error) {
	c, err := NewCluster(ctx, objects, settings)
	if err != nil {
		return nil, err
	}
	out := []ListedException{}
	for _, e := range c.exceptions {
		var object v1alpha1.PresetException
		if err := kjson.UnmarshalCaseSensitivePreserveInts(e.entry.JSON, &object); err != nil {
			return nil, err // unreachable: decoded before
		}
		listed := ListedException{
			Namespace: e.Namespace, Name: e.Name, File: e.entry.Where.File, Presets: e.Presets,
			Reason: object.Spec.Reason, Ticket: object.Spec.Ticket, VMs: object.Status.Matched, Expired: e.Expired(time.Now()),
		}
		if object.Spec.Until != nil {
			listed.Until = &object.Spec.Until.Time
		}
		if object.Status.LastUsed != nil {
			listed.LastUsed = &object.Status.LastUsed.Time
		}
		out = append(out, listed)
	}
	slices.SortFunc(out, func(a, b ListedException) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out, c.countUses(ctx, out)
}

// countUses counts the VMs of the input for the exceptions without a count in their status.
func (c *Cluster) countUses(ctx context.Context, of []ListedException) error {
	uncounted := func(e ListedException) bool { return e.VMs == nil }
	if len(c.VMs) == 0 || !slices.ContainsFunc(of, uncounted) {
		return nil
	}
	uses := map[string]int64{}
	for is := range c.outcomes(ctx) {
		if is.err != nil {
			return is.err
		}
		names := map[string]bool{}
		for _, e := range is.outcome.Exceptions {
			names[is.vm.Namespace+"/"+e.Name] = true
		}
		for name := range names {
			uses[name]++
		}
	}
	for i, e := range of {
		if uncounted(e) {
			of[i].VMs = new(uses[e.Namespace+"/"+e.Name])
		}
	}
	return nil
}
