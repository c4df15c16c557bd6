package conversion

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// seed is the example of the founding document, with its misspelt volume put right.
const seed = `
apiVersion: kubevirt.io/v1alpha2
kind: VirtualMachine
metadata: {name: myvm}
spec:
  running: false
  template:
    metadata: {labels: {my: label}}
    spec:
      domain:
        resources: {requests: {memory: 8Mi}}
        devices: {disks: [{name: disk0, volumeName: mypvc}, {name: disk1, volumeName: disk1}]}
      volumes: [{name: mypvc, persistentVolumeClaim: {claimName: myclaim}}]
status: {created: true, virtualMachine: myvm}
`

func TestConvert(t *testing.T) {
	stored := convert(t, object(t, seed), V1)
	want := object(t, `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: myvm, annotations: {virtwright.dev/v1alpha2-names: '{"disks":[{"volume":"mypvc","name":"disk0"}]}'}}
spec:
  running: false
  template:
    metadata: {labels: {my: label}}
    spec:
      domain:
        resources: {requests: {memory: 8Mi}}
        devices: {disks: [{name: mypvc}, {name: disk1}]}
      volumes: [{name: mypvc, persistentVolumeClaim: {claimName: myclaim}}]
status: {created: true}
`)
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("stored: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(object(t, seed), convert(t, stored, V1Alpha2)); diff != "" {
		t.Errorf("back again: -want, +got:\n%s", diff)
	}
	if old := convert(t, stored, V1Alpha3); old["apiVersion"] != V1Alpha3 || !cmp.Equal(old["spec"], stored["spec"]) {
		t.Errorf("v1alpha3 should have the form of v1, got %v", old)
	}
	if _, err := Convert(object(t, seed), "kubevirt.io/v2"); err == nil {
		t.Error("an unknown version is converted to")
	}
}

func TestPath(t *testing.T) {
	for path, want := range map[string]string{
		"spec.template.spec.domain.devices.disks[3].name":       "spec.template.spec.domain.devices.disks[3].volumeName",
		"spec.template.spec.domain.devices.disks[3].disk.name":  "spec.template.spec.domain.devices.disks[3].disk.name",
		"spec.template.spec.domain.devices.disks[3].disk.bus":   "spec.template.spec.domain.devices.disks[3].disk.bus",
		"spec.template.spec.domain.devices.interfaces[0].name":  "spec.template.spec.domain.devices.interfaces[0].name",
		"spec.template.spec.domain.devices.disks[0].x[1].name":  "spec.template.spec.domain.devices.disks[0].x[1].name",
		"spec.template.spec.domain.devices.disks[root].name":    "spec.template.spec.domain.devices.disks[root].volumeName",
		"spec.template.spec.domain.devices.disks[0].volumeName": "spec.template.spec.domain.devices.disks[0].volumeName",
	} {
		if got := Path(V1Alpha2, path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
		if got := Path(V1, path); got != path {
			t.Errorf("v1 %s: got %s", path, got)
		}
	}
}

// TestRoundTrips checks the laws with random objects: a round trip fills in missing fields once,
// and loses nothing.
func TestRoundTrips(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		obeysLaws(t, anObject(random))
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1alpha2","metadata":{"name":"a"},"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","volumeName":"b"},{"name":"c","volumeName":"b"}]}}}}},"status":{"virtualMachine":"x","created":true}}`))
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1","metadata":{"annotations":{"virtwright.dev/v1alpha2-names":"{\"disks\":[{\"volume\":\"b\",\"name\":\"a\"}]}"}},"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"b"}]}}}}}}`))
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1alpha2","metadata":5,"spec":{"template":[{}]},"status":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var from map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, &from) != nil || from == nil {
			return
		}
		if from["apiVersion"] != V1 && from["apiVersion"] != V1Alpha3 {
			from["apiVersion"] = V1Alpha2
		}
		obeysLaws(t, from)
	})
}

// obeysLaws checks one object.
func obeysLaws(t *testing.T, from map[string]any) {
	t.Helper()
	if from["apiVersion"] != V1Alpha2 { // the schemas of the others prune this
		editDisks(from, func(disk map[string]any) { delete(disk, "volumeName") })
		if status, ok := from["status"].(map[string]any); ok {
			delete(status, "virtualMachine")
		}
	}
	before := text(t, from)
	own, _ := from["apiVersion"].(string)
	other := V1Alpha2
	if own == V1Alpha2 {
		other = V1
	}
	there := convert(t, from, other)
	back := convert(t, there, own)
	if now := text(t, from); now != before {
		t.Fatalf("conversion changed its input from\n%s to\n%s", before, now)
	}
	if !holds(back, from) {
		t.Fatalf("lost something:\n%s\nbecame\n%s\nand\n%s", before, text(t, there), text(t, back))
	}
	if again := convert(t, convert(t, back, other), own); text(t, again) != text(t, back) {
		t.Fatalf("another round changes\n%s to\n%s", text(t, back), text(t, again))
	}
}

// holds reports whether all that is in want is in got; nulls are nothing, and names of disks that
// were left out have been filled in.
func holds(got, want any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		for key, value := range w {
			if key == "volumeName" && value == "" {
				continue // the same as leaving it out
			}
			if !holds(g[key], value) {
				return false
			}
		}
		return ok || len(w) == 0
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !holds(g[i], w[i]) {
				return false
			}
		}
		return true
	}
	return cmp.Equal(got, want) || keepsNames(got, want)
}

// keepsNames reports whether an annotation has at least the names of another, in any order of
// volumes.
func keepsNames(got, want any) bool {
	read := func(v any) map[string][]any {
		text, _ := v.(string)
		var kept names
		if json.Unmarshal([]byte(text), &kept) != nil {
			return nil
		}
		out := map[string][]any{"other": {kept.Other}}
		for _, d := range kept.Disks {
			out["disk "+d.Volume] = append(out["disk "+d.Volume], d.Name)
		}
		return out
	}
	has, needs := read(got), read(want)
	for key, list := range needs {
		if len(has[key]) < len(list) || !cmp.Equal(has[key][:len(list)], list) {
			return false
		}
	}
	return has != nil && needs != nil
}

func anObject(random *rand.Rand) map[string]any {
	pick := func(from ...any) any { return from[random.IntN(len(from))] }
	names := []any{"a", "b", "c", "", int64(5), nil}
	var disks []any
	for range random.IntN(5) {
		disk := map[string]any{"cache": "none"}
		if random.IntN(5) > 0 {
			disk["name"] = pick(names...)
		}
		if random.IntN(3) > 0 {
			disk["volumeName"] = pick(names...)
		}
		disks = append(disks, pick(disk, disk, disk, disk, "x"))
	}
	meta := map[string]any{"name": pick("a", "m")}
	if random.IntN(2) == 0 {
		meta["annotations"] = map[string]any{annotation: pick(
			"", "x", `{}`, `{"disks":[{"volume":"a","name":"c"}]}`, `{"disks":[{"volume":"a","name":"c"},{"volume":"b"},{"volume":"a","name":"d"}]}`,
			`{"virtualMachine":"z"}`, `{"other":"y"}`, `{"disks":[]}`, `{"disks":[{"volume":"b","name":5}],"virtualMachine":[1],"other":"{}"}`), "k": "v"}
	}
	status := map[string]any{"ready": true}
	if random.IntN(2) == 0 {
		status["virtualMachine"] = pick("a", "m", "z", int64(1))
	}
	if random.IntN(2) == 0 {
		status["created"] = pick(true, false, "true")
	}
	out := map[string]any{"apiVersion": pick(V1, V1Alpha2, V1Alpha3), "metadata": meta}
	if random.IntN(8) > 0 {
		out["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": pick(
			map[string]any{"disks": disks}, map[string]any{"disks": disks}, map[string]any{}, nil)}}}}
	}
	if random.IntN(3) > 0 {
		out["status"] = status
	}
	return out
}

func convert(t *testing.T, from map[string]any, version string) map[string]any {
	t.Helper()
	out, err := Convert(from, version)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func object(t *testing.T, manifest string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestForgedNames: anybody may write the annotation, and says no more by it than names of disks.
func TestForgedNames(t *testing.T) {
	for _, forged := range []string{
		`{"virtualMachine":"of-another"}`, `{"disks":[{"volume":"v","name":{"x":1}}],"virtualMachine":{"a":[1]}}`, `{"disks":[{"volume":"v","name":5}]}`,
	} {
		vm := object(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, annotations: {}}, spec: {template: {spec: {domain: {devices: {disks: [{name: v}]}}}}}}`)
		vm["metadata"].(map[string]any)["annotations"].(map[string]any)[annotation] = forged
		got := convert(t, vm, V1Alpha2)
		want := object(t, `{template: {spec: {domain: {devices: {disks: [{name: v, volumeName: v}]}}}}}`)
		if diff := cmp.Diff(any(want), got["spec"]); diff != "" || got["status"] != nil {
			t.Errorf("%s: status %v, -want, +got:\n%s", forged, got["status"], diff)
		}
	}
}
