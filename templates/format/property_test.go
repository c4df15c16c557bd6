package format_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
	"github.com/virtwright/virtwright/test/cases"
)

// TestLaws checks the laws of templates on generated VMs:
//   - P1 processing with the defaults and the withheld values gives the source;
//   - P2 the same VM gives the same bytes (of a sample);
//   - P3 names of parameters are unique and well-formed;
//   - P4 every parameter is used, and every reference is defined;
//   - P5 the template contains no secret, as text or in base64 (of a sample, like Verify);
//   - P6 strings stay strings, and other values keep their type;
//   - P7 overriding one parameter changes one leaf, the one at its path (of a sample);
//   - P8 the input does not change, and nothing panics;
//   - P9 LABELS are merged with labels of the VM, which take precedence (of a sample).
func TestLaws(t *testing.T) {
	before := debug.SetGCPercent(2000) // trees are small, and many
	t.Cleanup(func() { debug.SetGCPercent(before) })
	trees, chunks := cases.Of(100_000), 20
	for chunk := range chunks {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			t.Parallel()
			made := 0
			for seed := chunk; seed < trees; seed += chunks {
				why, rejected := law(uint64(seed))
				if why != "" {
					t.Fatalf("tree %d: %s", seed, why)
				}
				if !rejected {
					made++
				}
			}
			if total := trees / chunks; made < total/2 {
				t.Errorf("only %[2]d of %[1]d trees made templates", total, made)
			}
		})
	}
}

// law returns the law that a tree breaks, and whether no template was made of it.
func law(seed uint64) (string, bool) {
	vm := newMaker(seed).vm()
	again := copied(vm).(map[string]any)
	options := blueprint.Options{Rename: seed%3 == 0}
	b, err := blueprint.FromVM(vm, options)
	if !reflect.DeepEqual(vm, again) {
		return "P8: the input is changed", false
	}
	n := normal(again)
	grave, light := secretsOf(n)
	why := rejected(n, grave, options.Rename)
	if (err != nil) != (why != "") {
		return fmt.Sprintf("rejected with %v, wanted %q", err, why), false
	}
	if err != nil {
		if holds(err.Error(), grave) {
			return "P5: the error contains a secret", true
		}
		return "", true
	}
	second := b
	if seed%5 == 0 {
		if second, err = blueprint.FromVM(again, options); err != nil {
			return err.Error(), false
		}
	}
	for i, f := range format.Formats() {
		if f.Name == "configMap" && seed%40 != 0 || f.Name == "virtualMachineTemplate" && seed%4 != 0 {
			continue // YAML is slow, and contains the first format
		}
		c := trial{n: n, grave: grave, light: light, identities: identitiesOf(n), made: b, again: second, override: seed%50 == uint64(i), search: seed%30 == 0, verify: seed%8 == 0}
		if why := c.law(f); why != "" {
			return f.Name + ": " + why, false
		}
	}
	return "", false
}

// A trial is a normalized VM with two templates of it.
type trial struct {
	n           map[string]any
	grave       []string // secrets
	light       []string // secrets that may be words
	identities  int
	made, again *blueprint.Blueprint
	override    bool
	search      bool // for secrets
	verify      bool // also call Verify, which is slow
}

func (c trial) law(f format.Format) string {
	b := c.made
	template, err := f.Encode(b, format.Meta{Name: "t"})
	if err != nil {
		if f.Name == "virtualMachineTemplate" && strings.Contains(err.Error(), "a key of the VM") {
			return ""
		}
		return err.Error()
	}
	encoded, _ := json.Marshal(template.Object)
	if c.again != b {
		other, err := f.Encode(c.again, format.Meta{Name: "t"})
		if repeated, _ := json.Marshal(other.Object); err != nil || !bytes.Equal(encoded, repeated) {
			return "P2: bytes differ"
		}
	}
	if why := names(b, template.Object); why != "" {
		return why
	}
	if identical(b) != c.identities {
		return fmt.Sprintf("%d of %d values of identity are withheld", identical(b), c.identities)
	}
	if c.search {
		if why := leaked(template.Object, c.grave, c.light); why != "" {
			return why
		}
	}
	got, err := format.Run(template, b.Secrets())
	if err != nil {
		return "P1: " + err.Error()
	}
	if d := unequal("", renamed(c.n, got, b), got); d != "" {
		return "P1: " + d
	}
	if c.verify {
		if err := f.Verify(template, b); err != nil {
			return err.Error()
		}
	}
	if c.override {
		if why := merged(f, template, c.n, b); why != "" {
			return why
		}
		return overridden(b, got, func(values map[string]string) (map[string]any, error) { return format.Run(template, values) })
	}
	return ""
}

var suffixed = regexp.MustCompile(`^(.*)-[a-z0-9]{5}$`)

// renamed adds the generated suffix in the result to the names of DataVolumes in n.
func renamed(n, got map[string]any, b *blueprint.Blueprint) map[string]any {
	generated := false
	for _, p := range b.Parameters {
		generated = generated || p.Class == blueprint.Generated
	}
	if !generated {
		return n
	}
	volumes, suffix := map[string]bool{}, ""
	each("", n, noKey, func(at string, value any) {
		if name, ok := value.(string); ok && at == under("/spec/dataVolumeTemplates/#/metadata/name") {
			volumes[name] = true
		}
	})
	each("", got, noKey, func(at string, value any) {
		if found := suffixed.FindStringSubmatch(textOf(value)); found != nil && at == under("/spec/dataVolumeTemplates/#/metadata/name") {
			suffix = value.(string)[len(found[1]):]
		}
	})
	return suffixIn("", n, nil, volumes, suffix).(map[string]any)
}

var (
	volumeReference = regexp.MustCompile(under(`(?s)^/spec/template/spec/(volumes/#/((.*/)?dataVolume/name|(.*/)?claimName)|utilityVolumes/#/claimName)$`))
	claimSource     = regexp.MustCompile(under(`^/spec/dataVolumeTemplates/#/spec/(source/pvc|(pvc|storage)/dataSource(Ref)?)/name$`))
)

func suffixIn(at string, value any, parent map[string]any, volumes map[string]bool, suffix string) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, child := range value {
			out[key] = suffixIn(at+between+key, child, value, volumes, suffix)
		}
		return out
	case []any:
		out := []any{}
		for _, child := range value {
			out = append(out, suffixIn(at+between+"#", child, nil, volumes, suffix))
		}
		return out
	case string:
		local := claimSource.MatchString(at) && (strings.HasSuffix(at, under("/pvc/name")) || parent["kind"] == "PersistentVolumeClaim") && (parent["namespace"] == nil || parent["namespace"] == "" || parent["namespace"] == "here")
		if volumes[value] && (local || at == under("/spec/dataVolumeTemplates/#/metadata/name") || volumeReference.MatchString(at)) {
			return value + suffix
		}
	}
	return value
}

// identical counts the parameters of class Identity that are empty.
func identical(b *blueprint.Blueprint) int {
	found := 0
	for _, p := range b.Parameters {
		if p.Class == blueprint.Identity && p.Default == "" && !p.Required {
			found++
		}
	}
	return found
}

var wellFormed = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

var tokenOfAny = regexp.MustCompile(`\$\{+([^{}]*)\}+`)

// names checks P3, P4 and P6.
func names(b *blueprint.Blueprint, template map[string]any) string {
	kinds := map[string]blueprint.Type{}
	for _, p := range b.Parameters {
		if _, twice := kinds[p.Name]; twice || !wellFormed.MatchString(p.Name) {
			return "P3: " + p.Name
		}
		kinds[p.Name] = p.Type
	}
	used := map[string]bool{}
	why := ""
	body := template["objects"]
	if spec, ok := template["spec"].(map[string]any); ok {
		body = spec["virtualMachine"]
	} else if body == nil {
		return "" // the manifest in a ConfigMap is the first format
	}
	each("", body, func(_, key string) {
		for _, found := range tokenOfAny.FindAllStringSubmatch(key, -1) {
			if _, ok := kinds[found[1]]; ok {
				why = "P4: a key mentions " + found[1]
			}
		}
	}, func(_ string, value any) {
		text, _ := value.(string)
		if !strings.Contains(text, "${") {
			return
		}
		found := tokenOfAny.FindStringSubmatch(text)
		kind, ok := kinds[found[1]]
		if !ok {
			why = "P4: undefined parameter " + found[1]
		}
		if strings.HasPrefix(found[0], "${{") != (kind != blueprint.String) {
			why = "P6: " + text
		}
		used[found[1]] = true
	})
	if why == "" && len(used) != len(kinds) {
		why = "P4: unused parameters"
	}
	return why
}

// leaked checks P5 in keys and values, and for common words only in values. Templates contain some
// texts that are secrets here; these are no leaks.
func leaked(template map[string]any, grave, light []string) (why string) {
	grave, light = unlikeTemplates(grave), unlikeTemplates(light)
	if data, ok := template["data"].(map[string]any); ok { // a ConfigMap
		template = map[string]any{}
		if err := yaml.Unmarshal([]byte(data["template.yaml"].(string)), &template); err != nil {
			return "P5: " + err.Error()
		}
	}
	each("", template, func(at, key string) {
		if holds(key, grave) {
			why = "P5: a key at " + at
		}
	}, func(at string, value any) {
		text := textOf(value)
		// Paths in notes and warnings contain keys.
		if holds(text, grave) || at != under("/message") && !strings.HasPrefix(at, under("/metadata/")) && holds(text, light) {
			why = "P5: a secret at " + at
		}
	})
	return why
}

// unlikeTemplates returns the secrets that do not occur in the text of every template.
func unlikeTemplates(secrets []string) (out []string) {
	for _, secret := range secrets {
		if strings.Contains(secret, "s3cr") || !tokenOfAny.MatchString(secret) {
			out = append(out, secret)
		}
	}
	return out
}

// overridden checks P7 for each parameter with a value of its type.
func overridden(b *blueprint.Blueprint, before map[string]any, run func(map[string]string) (map[string]any, error)) string {
	for _, p := range b.Parameters {
		values := maps.Clone(b.Secrets())
		switch p.Class {
		case blueprint.Labels, blueprint.Generated:
			continue
		}
		values[p.Name] = map[blueprint.Type]string{blueprint.Boolean: "true", blueprint.Integer: "424242", blueprint.Number: "0.4242", blueprint.String: "else ${HOME}"}[p.Type]
		if p.Type == blueprint.Boolean && p.Default == "true" {
			values[p.Name] = "false"
		}
		after, err := run(values)
		if err != nil {
			return "P7: " + err.Error()
		}
		changed := map[string]bool{}
		changes("", before, after, changed)
		if !changed[p.Path] || len(changed) != 1 && !generates(b) {
			return fmt.Sprintf("P7: %s of %q changes %q", p.Name, p.Path, slices.Collect(maps.Keys(changed)))
		}
	}
	return ""
}

// merged checks P9. LABELS replaces the labels in formats that cannot merge.
func merged(f format.Format, template *unstructured.Unstructured, n map[string]any, b *blueprint.Blueprint) string {
	given := map[string]any{"app": "mine", "more": "x"}
	want := maps.Clone(given)
	if f.Name != "virtualMachineTemplate" {
		maps.Copy(want, n["metadata"].(map[string]any)["labels"].(map[string]any))
	}
	values := maps.Clone(b.Secrets())
	encoded, _ := json.Marshal(given)
	values["LABELS"] = string(encoded)
	after, err := format.Run(template, values)
	if err != nil {
		return "P9: " + err.Error()
	}
	if d := unequal("", want, after["metadata"].(map[string]any)["labels"]); d != "" {
		return "P9: " + d
	}
	return ""
}

func generates(b *blueprint.Blueprint) bool {
	for _, p := range b.Parameters {
		if p.Class == blueprint.Generated {
			return true
		}
	}
	return false
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// changes adds the paths of leaves that differ, in the form of notes.
func changes(at string, a, b any, found map[string]bool) {
	switch a := a.(type) {
	case map[string]any:
		for key := range a {
			inner := strings.TrimPrefix(at+"."+key, ".")
			if !bare.MatchString(key) {
				inner = at + "['" + strings.ReplaceAll(strings.ReplaceAll(key, "\\", "\\\\"), "'", "\\'") + "']"
			}
			changes(inner, a[key], b.(map[string]any)[key], found)
		}
	case []any:
		for i := range a {
			changes(fmt.Sprintf("%s[%d]", at, i), a[i], b.([]any)[i], found)
		}
	default:
		if number(a) != number(b) {
			found[at] = true
		}
	}
}
