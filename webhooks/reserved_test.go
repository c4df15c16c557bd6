package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets"
)

// Reserved annotations are removed, however many there are, by one operation.
func TestForgedAnnotations(t *testing.T) {
	reserved := func(n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, `"virtwright.dev/l%d":"x",`, i)
		}
		return out.String()
	}
	create := func(annotations string) string {
		return `{"metadata":{"name":"a","annotations":{` + annotations + `"mine":"kept"}},"spec":{"domain":{}},"status":{"phase":"Running"}}`
	}
	for name, c := range map[string]struct {
		count, operations int
		rejected          string
	}{
		"one":               {1, 1, ""},
		"thousands":         {9000, 1, ""},
		"more than allowed": {20_000, 0, "metadata.annotations: Too long: may not be more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			req := creates("VirtualMachineInstance", "lab", create(reserved(c.count)))
			resp := machines(t, presets.VirtualMachineInstance).Handle(t.Context(), req)
			if c.rejected != "" {
				if resp.Allowed || !strings.Contains(resp.Result.Message, c.rejected) {
					t.Errorf("got %v", resp.Result)
				}
				return
			}
			operations := 0
			for _, op := range resp.Patches {
				if op.Path == "/metadata/annotations" || strings.Contains(op.Path, "~1l") {
					operations++
				}
			}
			if operations != c.operations {
				t.Errorf("got %d operations on reserved annotations, want %d", operations, c.operations)
			}
			got, _ := patched(t, req, resp, "metadata", "annotations").(map[string]any)
			delete(got, "virtwright.dev/provenance") // which the engine adds
			if diff := cmp.Diff(map[string]any{"mine": "kept"}, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if patched(t, req, resp, "status") != nil {
				t.Error("the status of a new instance must go")
			}
		})
	}
}
