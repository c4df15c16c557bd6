package offline_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
)

// What is printed is what an API server makes of the patch that the webhook
// would answer.
func TestExpandIsThePatchedObject(t *testing.T) {
	const examples = "../../../../examples/"
	objects, err := manifest.Read(nil, []string{examples + "vms", examples + "presets", examples + "namespaces.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	for name, platform := range map[string]*presets.Platform{"standalone": {}, "addon": nil} {
		engine := &presets.Engine{Platform: platform}
		c, err := offline.NewCluster(t.Context(), objects, offline.Settings{Engine: engine, Namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Machines {
			t.Run(name+"/"+m.Name, func(t *testing.T) {
				object, _, err := c.Expand(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := c.Resolve(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(decoded(t, patched(t, m.JSON, answer)), decoded(t, encoded(t, object))); diff != "" {
					t.Errorf("-patched, +printed:\n%s", diff)
				}
			})
		}
	}
}

func patched(t *testing.T, object []byte, answer *presets.Result) []byte {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(encoded(t, answer.Patch))
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
