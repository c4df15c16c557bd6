package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// printLink prints a link that opens copies of the VMs and presets in the playground at base.
func printLink(ctx context.Context, o *settings, s streams, args []string, base string) error {
	objects, err := o.objects(ctx, s, args)
	if err != nil {
		return err
	}
	in, err := newInput(objects, o.namespace, o.mode)
	if err != nil {
		return err
	}
	if in.VM == "" {
		return fmt.Errorf("no VirtualMachine or VirtualMachineInstance in %s", o.described(args))
	}
	link, err := playground.Link(base, in)
	if err != nil {
		return fmt.Errorf("--link: %w", err)
	}
	for _, object := range objects {
		if paths := secretPaths(object); len(paths) > 0 {
			fmt.Fprintf(s.err, "Warning: %s: readers of the link can read fields that may hold passwords: %s\n", object.Where, strings.Join(paths, ", "))
		}
	}
	fmt.Fprintln(s.out, link)
	return nil
}

// A vmPart has the fields of a VM that a VM or a preset sets.
type vmPart struct {
	Metadata map[string]any `json:"metadata"`
	Spec     map[string]any `json:"spec"`
}

func partOf(fields any) (out vmPart) {
	tree, _ := fields.(map[string]any)
	out.Metadata, _ = tree["metadata"].(map[string]any)
	out.Spec, _ = tree["spec"].(map[string]any)
	return out
}

// vm returns a VM with these fields, and with the fields that each VM has.
func (p vmPart) vm() map[string]any {
	metadata, spec, template := map[string]any{"name": "vm"}, map[string]any{}, map[string]any{"spec": map[string]any{}}
	maps.Copy(metadata, p.Metadata)
	maps.Copy(spec, p.Spec)
	if given, ok := spec["template"].(map[string]any); ok {
		maps.Copy(template, given)
	}
	spec["template"] = template
	return map[string]any{"apiVersion": conversion.V1, "kind": string(presets.VirtualMachine), "metadata": metadata, "spec": spec}
}

// secretPaths lists the fields that templates treat as secrets. In a preset, these are fields of
// its defaults and overrides.
func secretPaths(o manifest.Object) (paths []string) {
	var object vmPart
	if kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &object) != nil {
		return nil // the playground shows the reason
	}
	parts := []vmPart{object}
	switch {
	case strings.HasSuffix(o.Kind, "Preset"):
		parts = []vmPart{partOf(object.Spec["defaults"]), partOf(object.Spec["overrides"])}
	case o.Kind == string(presets.VirtualMachineInstance):
		parts = []vmPart{{Spec: map[string]any{"template": map[string]any{"metadata": object.Metadata, "spec": object.Spec}}}}
	}
	for _, part := range parts {
		b, err := blueprint.FromVM(part.vm(), blueprint.Options{})
		if err != nil {
			return []string{"spec"} // for example with a secret in a name
		}
		for _, p := range b.Parameters {
			if p.Class == blueprint.Secret && !slices.Contains(paths, p.Path) {
				paths = append(paths, p.Path)
			}
		}
	}
	return paths
}
