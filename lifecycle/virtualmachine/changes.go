package virtualmachine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// namedChanges is how many fields the condition RestartRequired names.
const namedChanges = 3

// changes names the fields of the template that differ from a VMI. Caches hold neither, so both
// are read from the API server.
func (c *Controller) changes(ctx context.Context, vm *machine.VirtualMachine) (string, error) {
	key := client.ObjectKeyFromObject(vm)
	whole, err := c.whole(ctx, vm)
	if err != nil {
		return "", err
	}
	vmi := &unstructured.Unstructured{}
	vmi.SetGroupVersionKind(instances)
	if err := c.Live.Get(ctx, key, vmi); err != nil {
		return "", fmt.Errorf("cannot read VirtualMachineInstance %s: %w", key, err)
	}
	now, err := json.Marshal(whole)
	if err != nil {
		return "", fmt.Errorf("cannot encode VirtualMachine %s: %w", key, err)
	}
	was, err := json.Marshal(vmi)
	if err != nil {
		return "", fmt.Errorf("cannot encode VirtualMachineInstance %s: %w", key, err)
	}
	found, err := presets.TemplateChanges(now, was)
	if err != nil {
		return "", nil //nolint:nilerr // stored before a rule refused it: the condition names no field
	}
	return describeChanges(found), nil
}

// describeChanges names the first fields and their origins, and counts the rest.
func describeChanges(found []presets.Origin) string {
	var out []string
	for _, o := range found[:min(len(found), namedChanges)] {
		out = append(out, fmt.Sprintf("%s (%s)", o.Path, originOf(o)))
	}
	if more := len(found) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return presets.Cut(strings.Join(out, ", "), longestChanges)
}

// longestChanges limits the text in bytes: keys of elements and of maps may be long.
const longestChanges = 1000

func originOf(o presets.Origin) string {
	switch {
	case o.User:
		return "user"
	case o.By.Role == provenance.Platform:
		return "platform default " + o.By.Preset
	}
	return "preset " + o.By.Preset
}
