package offline

import (
	"context"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
)

// A ListedException is an exception as lists show it.
type ListedException struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	File      string     `json:"file"`
	Presets   []string   `json:"presets"`
	Reason    string     `json:"reason"`
	Ticket    string     `json:"ticket,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	Expired   bool       `json:"expired"`
	// VMs counts the VMs that use the exception, as its status says; nil if that is unknown.
	VMs      *int64     `json:"vms,omitempty"`
	LastUsed *time.Time `json:"lastUsed,omitempty"`
}

// Exceptions lists the exceptions among objects, by namespace and name. Those that a cluster would
// refuse are an error.
func Exceptions(ctx context.Context, objects []manifest.Object, settings Settings) ([]ListedException, error) {
	c, err := NewCluster(ctx, objects, settings)
	if err != nil {
		return nil, err
	}
	out := []ListedException{}
	for _, e := range c.exceptions {
		var object v1alpha1.PresetException
		if err := kjson.UnmarshalCaseSensitivePreserveInts(e.entry.JSON, &object); err != nil {
			return nil, err // unreachable: it was read before
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
	return out, nil
}
