package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/simulate"
)

// TestCatalogueMutants applies each mutation to the presets of the catalogue, one at a time. At
// least 95 of 100 must fail a case. Mutations that make a preset invalid do not count.
func TestCatalogueMutants(t *testing.T) {
	var all tally
	t.Run("Files", func(t *testing.T) {
		for _, file := range catalogueFiles(t) {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				all.add(mutate(t, file))
			})
		}
	})
	slices.Sort(all.survivors)
	t.Logf("%d changes, of them %d fail no case (%d more make presets that are rejected):\n%s",
		all.counted, len(all.survivors), all.rejected, strings.Join(all.survivors, "\n"))
	if all.counted < 100 || 100*len(all.survivors) > 5*all.counted {
		t.Errorf("want at least 100 changes, and at most 5 of 100 that fail no case")
	}
}

type tally struct {
	mu                sync.Mutex
	counted, rejected int
	// survivors are mutations that fail no case.
	survivors []string
}

func (m *tally) add(more *tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted, m.rejected, m.survivors = m.counted+more.counted, m.rejected+more.rejected, append(m.survivors, more.survivors...)
}

// mutate applies the mutations to the presets of a file.
func mutate(t *testing.T, original string) *tally {
	t.Helper()
	dir, name, out := t.TempDir(), filepath.Base(original), &tally{}
	if err := os.CopyFS(dir, os.DirFS(catalogue)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name)
	presets := objectsIn(t, original)
	for i := range presets {
		for change, mutant := range mutants(presets[i]["spec"].(map[string]any)) {
			changed := slices.Clone(presets)
			changed[i] = maps.Clone(presets[i])
			changed[i]["spec"] = mutant
			writeDocuments(t, file, changed)
			code, rejected := tested(t, filepath.Join(dir, "tests", name))
			if code == exitFine {
				code, rejected = tested(t, filepath.Join(dir, "tests/together.yaml"))
			}
			switch {
			case rejected:
				out.rejected++
				continue
			case code == exitFine:
				out.survivors = append(out.survivors, fmt.Sprintf("%s, document %d: %s", name, i+1, change))
			}
			out.counted++
		}
	}
	return out
}

// tested runs the cases of a file, and reports whether a cluster would reject the presets.
func tested(t *testing.T, file string) (code int, rejected bool) {
	t.Helper()
	got := call(t, "", "test", "-f", file, "-o", "json")
	var report testReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err, got.err)
	}
	return got.code, slices.ContainsFunc(report.Cases, func(c simulate.CaseReport) bool { return c.Error != "" })
}

func writeDocuments(t *testing.T, file string, documents []map[string]any) {
	t.Helper()
	var out strings.Builder
	for _, d := range documents {
		text, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(text))
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

type edit func(spec map[string]any)

// mutations are the kinds of changes. Each yields changes by description.
var mutations = []func(spec map[string]any, yield func(string, edit)){
	changeValues, removeFields, renameFields, changeLayers, changeForbids, changeSelectors, changeConditions, changeSettings,
}

// mutants returns copies of a spec, each with a single change.
func mutants(spec map[string]any) iter.Seq2[string, map[string]any] {
	return func(yield func(string, map[string]any) bool) {
		more := true
		for _, mutation := range mutations {
			mutation(spec, func(change string, e edit) {
				if !more {
					return
				}
				mutant := runtime.DeepCopyJSON(spec)
				e(mutant)
				more = yield(change, mutant)
			})
		}
	}
}

var layers = []string{"defaults", "overrides"}

// place is the path of a value: keys of maps, and indexes of lists.
type place []any

func (p place) String() string { return strings.Trim(fmt.Sprint([]any(p)), "[]") }

// leavesOf returns the places of scalars, computed values, empty objects and lists of scalars.
func leavesOf(value any, at place) []place {
	var out []place
	switch v := value.(type) {
	case nil:
	case map[string]any:
		if len(v) == 0 || v["$cel"] != nil {
			return []place{at}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, leavesOf(v[key], append(slices.Clone(at), key))...)
		}
	case []any:
		if _, objects := v[0].(map[string]any); !objects {
			return []place{at}
		}
		for i := range v {
			out = append(out, leavesOf(v[i], append(slices.Clone(at), i))...)
		}
	default:
		return []place{at}
	}
	return out
}

func valueAt(in any, at place) any {
	for _, step := range at {
		switch s := step.(type) {
		case string:
			in = in.(map[string]any)[s]
		case int:
			in = in.([]any)[s]
		}
	}
	return in
}

func setAt(in any, at place, value any) {
	last := at[len(at)-1]
	switch parent := valueAt(in, at[:len(at)-1]).(type) {
	case map[string]any:
		parent[last.(string)] = value
	case []any:
		parent[last.(int)] = value
	}
}

// removeAt removes a value, and objects and lists that become empty.
func removeAt(in any, at place) {
	last, above := at[len(at)-1], at[:len(at)-1]
	switch parent := valueAt(in, above).(type) {
	case map[string]any:
		delete(parent, last.(string))
		if len(parent) == 0 && len(above) > 0 {
			removeAt(in, above)
		}
	case []any:
		i := last.(int)
		if len(parent) == 1 {
			removeAt(in, above)
			return
		}
		setAt(in, above, slices.Delete(slices.Clone(parent), i, i+1))
	}
}

// others are alternatives that are also valid. Other values get a new name.
var others = map[string]string{
	"Always": "RerunOnFailure", "Exists": "Equal", "LiveMigrate": "LiveMigrateIfPossible", "NoSchedule": "NoExecute",
	"None": "External", "ScheduleAnyway": "DoNotSchedule", "auto": "shared", "catchup": "delay", "delay": "discard",
	"e1000e": "e1000", "pc-q35-rhel9.6.0": "pc-q35-rhel9.4.0", "reset": "poweroff", "sata": "scsi", "usb": "virtio", "virtio": "scsi",
}

func otherValues(value any) []any {
	switch v := value.(type) {
	case bool:
		return []any{!v}
	case float64:
		return []any{v + 1}
	case int64:
		return []any{v + 1}
	case string:
		if other := others[v]; other != "" {
			return []any{other}
		}
		return []any{v + "-x"}
	case []any:
		return []any{[]any{"other"}}
	case map[string]any:
		var out []any
		if expression, ok := v["$cel"].(string); ok {
			for _, other := range otherExpressions(expression) {
				out = append(out, map[string]any{"$cel": other})
			}
		}
		return out
	}
	return nil
}

// rewrites change operators, constants and fields of expressions.
var rewrites = [][2]string{
	{" == ", " != "}, {" * ", " + "}, {".add(", ".sub("}, {"orValue(true)", "orValue(false)"}, {"orValue(1)", "orValue(2)"},
	{"256Mi", "512Mi"}, {`"amd64"`, `"arm64"`}, {"example.com/vm-network", "example.com/network"}, {"!object", "object"},
	{"!namespaceObject", "namespaceObject"}, {".architecture", ".hostname"}, {".smm", ".apic"}, {".launchSecurity", ".memory"},
	{".requests", ".limits"}, {".networks", ".volumes"}, {".autoattachPodInterface", ".autoattachMemBalloon"},
	{".sockets", ".cores"}, {".cores", ".threads"}, {".threads", ".sockets"}, {".guest", ".maxGuest"},
}

// otherExpressions rewrites each match in an expression separately.
func otherExpressions(expression string) []string {
	var out []string
	for _, r := range rewrites {
		for _, at := range regexp.MustCompile(regexp.QuoteMeta(r[0])).FindAllStringIndex(expression, -1) {
			out = append(out, expression[:at[0]]+r[1]+expression[at[1]:])
		}
	}
	return out
}

func changeValues(spec map[string]any, yield func(string, edit)) {
	for _, layer := range layers {
		for _, at := range leavesOf(spec[layer], place{layer}) {
			for _, other := range otherValues(valueAt(spec, at)) {
				yield(fmt.Sprintf("%s becomes %v", at, other), func(s map[string]any) { setAt(s, at, other) })
			}
		}
	}
}

// removeFields removes leaves and whole elements of lists.
func removeFields(spec map[string]any, yield func(string, edit)) {
	for _, layer := range layers {
		removed := map[string]bool{}
		for _, leaf := range leavesOf(spec[layer], place{layer}) {
			for end := range leaf {
				at := leaf[:end+1]
				_, element := at[end].(int)
				if (element || end == len(leaf)-1) && !removed[at.String()] {
					removed[at.String()] = true
					yield(at.String()+" is removed", func(s map[string]any) { removeAt(s, at) })
				}
			}
		}
	}
}

// renameFields moves each field to another field of the same type, if there is one.
func renameFields(spec map[string]any, yield func(string, edit)) {
	for _, layer := range layers {
		renamed := map[string]bool{}
		for _, leaf := range leavesOf(spec[layer], place{layer}) {
			for end := 1; end < len(leaf); end++ {
				at := slices.Clone(leaf[:end+1])
				parent, ok := valueAt(spec, at[:end]).(map[string]any)
				if !ok || renamed[at.String()] {
					continue
				}
				renamed[at.String()] = true
				if other := sameType(at[1:], parent); other != "" {
					yield(fmt.Sprintf("%s is renamed to %s", at, other), func(s map[string]any) {
						setAt(s, append(slices.Clone(at[:end]), other), valueAt(s, at))
						removeAt(s, at)
					})
				}
			}
		}
	}
}

// sameType returns another field of the same type that is not set.
func sameType(at place, siblings map[string]any) string {
	in := typeAt(at[:len(at)-1])
	if in == nil || in.Kind() != reflect.Struct {
		return ""
	}
	fields := fieldsOf(in)
	name, _ := at[len(at)-1].(string)
	for _, other := range slices.Sorted(maps.Keys(fields)) {
		if siblings[other] == nil && fields[other] == fields[name] {
			return other
		}
	}
	return ""
}

// typeAt returns the Go type at a place of a VirtualMachine; nil if unknown.
func typeAt(at place) reflect.Type {
	in := reflect.TypeFor[kubevirtv1.VirtualMachine]()
	for _, step := range at {
		switch {
		case in.Kind() == reflect.Slice || in.Kind() == reflect.Map:
			in = in.Elem()
		case in.Kind() == reflect.Struct:
			in = fieldsOf(in)[step.(string)]
		default:
			return nil
		}
		if in == nil {
			return nil
		}
		for in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
	}
	return in
}

func fieldsOf(in reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(in) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = f.Type
		}
	}
	return out
}
