package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// preset is a manifest of either kind with a partial VM as defaults and as overrides.
func preset(kind, partial string) []byte {
	return []byte(`{"apiVersion":"virtwright.dev/v1alpha1","kind":"` + kind + `","metadata":{"name":"p"},` +
		`"spec":{"defaults":` + partial + `,"overrides":` + partial + `}}`)
}

func decode(t *testing.T, manifest []byte) v1alpha1.Preset {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme).UniversalDeserializer(), manifest)
	if err != nil {
		t.Fatalf("cannot decode %s: %v", manifest, err)
	}
	asPreset, ok := decoded.(v1alpha1.Preset)
	if !ok {
		t.Fatalf("%T is not a Preset", decoded)
	}
	return asPreset
}

func TestPartialsKeepTheirBytes(t *testing.T) {
	cases := map[string]struct{ reason, partial string }{
		"spelling":  {"quantities and numbers keep their spelling", `{"spec":{"a":"1024Mi","b":1.0,"c":1e3,"d":12345678901234567890,"e":-0}}`},
		"order":     {"keys keep their order", `{"z":1,"a":2,"m":{"y":1,"b":2}}`},
		"null":      {"the webhook rejects null, so it must see it", `{"spec":{"running":null}}`},
		"space":     {"nothing is reformatted", "{ \"spec\" :\t{ } ,\n \"x\": [ 1,  2 ] }"},
		"escapes":   {"escaped text is not decoded", `{"spec":{"script":"\u0061 \u003cb\u003e \n ü"}}`},
		"duplicate": {"a duplicate key is for the webhook to see", `{"a":1,"a":2}`},
		"string":    {"the wrong type is for the webhook to name", `"template"`},
		"list":      {"the wrong type is for the webhook to name", `[1,2]`},
		"unknown":   {"fields that no Go type has survive", `{"spec":{"template":{"spec":{"brandNew":{"deep":[{}]}}}}}`},
	}
	for name, tc := range cases {
		for _, kind := range []string{v1alpha1.KindVirtualMachinePreset, v1alpha1.KindClusterVirtualMachinePreset} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				spec := decode(t, preset(kind, tc.partial)).DeepCopyObject().(v1alpha1.Preset).GetSpec()
				if diff := cmp.Diff(tc.partial, string(spec.Defaults.Raw)); diff != "" {
					t.Errorf("%s: defaults changed (-want +got):\n%s", tc.reason, diff)
				}
				if diff := cmp.Diff(tc.partial, string(spec.Overrides.Raw)); diff != "" {
					t.Errorf("%s: overrides changed (-want +got):\n%s", tc.reason, diff)
				}
			})
		}
	}
}

func TestRoundTripOnlyCompacts(t *testing.T) {
	const partial = "{ \"spec\": {\"z\": 1.0, \"a\": \"1024Mi\", \"n\": null} }"
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(partial)); err != nil {
		t.Fatal(err)
	}

	encoded, err := json.Marshal(decode(t, preset(v1alpha1.KindVirtualMachinePreset, partial)))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"defaults":` + compact.String(); !strings.Contains(string(encoded), want) {
		t.Errorf("want %s in %s", want, encoded)
	}
	again := decode(t, encoded).GetSpec()
	if diff := cmp.Diff(compact.String(), string(again.Overrides.Raw)); diff != "" {
		t.Errorf("overrides changed (-want +got):\n%s", diff)
	}
}

// A null at the root looks like an absent one in Go: who must tell them apart reads the request.
func TestNullAtTheRootIsAbsent(t *testing.T) {
	spec := decode(t, preset(v1alpha1.KindVirtualMachinePreset, "null")).GetSpec()
	if spec.Defaults != nil || spec.Overrides != nil {
		t.Errorf("want nil, got %v and %v", spec.Defaults, spec.Overrides)
	}
}

func TestDeepCopyIsIndependent(t *testing.T) {
	original := decode(t, preset(v1alpha1.KindClusterVirtualMachinePreset, `{"a":1}`))
	changed := original.DeepCopyObject().(v1alpha1.Preset)
	changed.GetSpec().Defaults.Raw[1] = 'X'
	changed.GetSpec().Priority = 7
	changed.GetStatus().ObservedGeneration = 7
	if diff := cmp.Diff(decode(t, preset(v1alpha1.KindClusterVirtualMachinePreset, `{"a":1}`)), original); diff != "" {
		t.Errorf("the original changed with its copy (-want +got):\n%s", diff)
	}
}

func TestDefaultsOutsideTheAPIServer(t *testing.T) {
	spec := decode(t, preset(v1alpha1.KindVirtualMachinePreset, `{}`)).GetSpec()
	if got := spec.ApplyAt.OrDefault(); got != v1alpha1.ApplyAtDefinition {
		t.Errorf("want %s, got %s", v1alpha1.ApplyAtDefinition, got)
	}
	if got := spec.Mode.OrDefault(); got != v1alpha1.ModeEnforce {
		t.Errorf("want %s, got %s", v1alpha1.ModeEnforce, got)
	}
	if got := v1alpha1.ApplyAtLaunch.OrDefault(); got != v1alpha1.ApplyAtLaunch {
		t.Errorf("want %s, got %s", v1alpha1.ApplyAtLaunch, got)
	}
	if got := v1alpha1.ModeOff.OrDefault(); got != v1alpha1.ModeOff {
		t.Errorf("want %s, got %s", v1alpha1.ModeOff, got)
	}
}
