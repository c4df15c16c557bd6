package playground_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/test/golden"
)

const root = "../../../../"

// example is one entry of the page's list of examples.
type example struct {
	Title   string `json:"title"`
	VM      string `json:"vm"`
	Presets string `json:"presets"`
	Mode    string `json:"mode"`
}

// TestExamples writes web/examples.json from the files of the repository's examples.
func TestExamples(t *testing.T) {
	examples := []example{
		{Title: "A name and a label", VM: "vms/tiny", Presets: "presets/sizes"},
		{Title: "Windows desktop", VM: "vms/desktop", Presets: "presets/sizes presets/windows"},
		{
			Title: "Web server in production", VM: "vms/web",
			Presets: "namespaces presets/sizes presets/tier-prod presets/secure-boot presets/placement",
		},
		{Title: "Values computed with CEL", VM: "vms/worker", Presets: "presets/computed"},
		{Title: "Overrides and an exclusion", VM: "vms/appliance", Presets: "namespaces presets/tier-prod presets/secure-boot presets/placement"},
		{
			Title: "Dedicated CPUs", VM: "vms/trading",
			Presets: "namespaces presets/latency-sensitive presets/tier-prod presets/secure-boot",
		},
		{
			Title: "VMI without a VM, with profiles", VM: "vms/batch",
			Presets: "namespaces presets/sizes presets/tier-prod presets/secure-boot presets/placement profiles/house profiles/production",
		},
		{Title: "A misspelt field", VM: "vms/tiny", Presets: "rejected/misspelt presets/sizes"},
		{Title: "A test of a preset", VM: "vms/tiny", Presets: "catalogue/tests/cpu-model catalogue/cpu-model presets/sizes"},
	}
	for i := range examples {
		examples[i].Mode = "standalone"
		examples[i].VM = manifests(t, examples[i].VM)
		examples[i].Presets = manifests(t, examples[i].Presets)
	}
	writeJSON(t, "web/examples.json", examples)
	writeJSON(t, root+"docs/.vitepress/theme/example.json", shown(t, examples[0]))
}

// shown is an example and its result, which the front page of the site shows before the engine is
// loaded.
func shown(t *testing.T, e example) any {
	t.Helper()
	type line struct {
		Text  string `json:"text"`
		By    string `json:"by,omitempty"`
		Class string `json:"class,omitempty"`
	}
	var evaluator playground.Evaluator
	out := evaluator.Evaluate(context.Background(), playground.Input{VM: e.VM, Presets: e.Presets, Mode: e.Mode})
	if len(out.VMs) != 1 || len(out.Problems) > 0 {
		t.Fatalf("the first example has the result %+v", out)
	}
	var lines []line
	for _, l := range out.VMs[0].Lines {
		if len(l.Text) > 60 { // the record of origins
			l.Text = l.Text[:50] + "…"
		}
		lines = append(lines, line{Text: l.Text, By: l.By, Class: l.Class})
	}
	vm := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(e.VM, "")
	return map[string]any{"vm": vm, "lines": lines}
}

// manifests joins example files to one text of several documents.
func manifests(t *testing.T, names string) string {
	t.Helper()
	var texts []string
	for name := range strings.FieldsSeq(names) {
		texts = append(texts, narrowed(string(read(t, root+"examples/"+name+".yaml"))))
	}
	return strings.Join(texts, "---\n")
}

// narrowed wraps the comments between fields again, so that they fit into an editor of the page.
func narrowed(text string) string {
	const columns = 64
	return regexp.MustCompile(`(?m)(^# .*\n)+`).ReplaceAllStringFunc(text, func(comment string) string {
		var out strings.Builder
		line := "#"
		for word := range strings.FieldsSeq(strings.ReplaceAll(comment, "# ", "")) {
			if len(line)+1+len(word) > columns {
				out.WriteString(line + "\n")
				line = "#"
			}
			line += " " + word
		}
		return out.String() + line + "\n"
	})
}

// TestSchema writes web/schema.json, from which the editors complete and explain fields.
func TestSchema(t *testing.T) {
	files, err := filepath.Glob(root + "charts/virtwright/files/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot find the CRDs: %v", err)
	}
	s := &schema{Kinds: map[string]*kind{}, numbers: map[string]int{}, values: map[string][]string{}}
	s.Kinds["Namespace"] = &kind{APIVersion: "v1", field: field{Properties: s.number(map[string]*field{"metadata": s.metadata()})}}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(read(t, file), &crd); err != nil {
			t.Fatalf("cannot read %s: %v", file, err)
		}
		if crd.Spec.Group != "ssp.kubevirt.io" { // requests are no input of the playground
			s.add(&crd)
		}
	}
	s.partialVMs()
	writeJSON(t, "web/schema.json", s)
	if info, err := os.Stat("web/schema.json"); err != nil || info.Size() > 300<<10 {
		t.Errorf("web/schema.json has more than 300 KiB, which every visitor loads: %v", err)
	}
}

// schema is the compact form of the CRDs' schemas. Equal maps of properties are kept once.
type schema struct {
	Kinds map[string]*kind    `json:"kinds"`
	Maps  []map[string]*field `json:"maps"`

	numbers map[string]int
	// values are the supported values of fields of VMs, by path.
	values map[string][]string
}

type kind struct {
	APIVersion string `json:"v"`
	field
}

// field is one field. Properties is a place in schema.Maps; those of a list belong to its elements,
// and the property * stands for every key of a map.
type field struct {
	Description string   `json:"d,omitempty"`
	Type        string   `json:"t,omitempty"`
	Enum        []string `json:"e,omitempty"`
	Properties  *int     `json:"p,omitempty"`
}

func (s *schema) add(crd *apiextensionsv1.CustomResourceDefinition) {
	version := crd.Spec.Versions[0]
	for _, v := range crd.Spec.Versions {
		if v.Name == "v1" {
			version = v
		}
	}
	properties := version.Schema.OpenAPIV3Schema.Properties
	paths := map[string]string{"VirtualMachine": "spec", "VirtualMachineInstance": "spec.template.spec"}
	fields := map[string]*field{"metadata": s.metadata()}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := properties[name]
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			fields[name] = s.field(&property, paths[crd.Spec.Names.Kind])
		}
	}
	s.Kinds[crd.Spec.Names.Kind] = &kind{
		APIVersion: crd.Spec.Group + "/" + version.Name,
		field:      field{Description: firstSentence(version.Schema.OpenAPIV3Schema.Description), Properties: s.number(fields)},
	}
}

func (s *schema) metadata() *field {
	values := s.number(map[string]*field{"*": {Type: "string"}})
	return &field{Type: "object", Properties: s.number(map[string]*field{
		"name":        {Type: "string", Description: "The name, unique among objects of this kind in the namespace."},
		"namespace":   {Type: "string", Description: "The namespace; default if it is missing."},
		"labels":      {Type: "map", Description: "Labels, by which presets select VMs and namespaces.", Properties: values},
		"annotations": {Type: "map", Description: "Annotations, for example virtwright.dev/presets.", Properties: values},
	})}
}

// field returns a field whose path in a VM is at; empty for a field of another kind.
func (s *schema) field(p *apiextensionsv1.JSONSchemaProps, at string) *field {
	f := &field{Description: firstSentence(p.Description), Type: p.Type}
	switch {
	case p.Items != nil && p.Items.Schema != nil:
		element := s.field(p.Items.Schema, under(at, "[0]"))
		f.Properties, f.Enum = element.Properties, element.Enum
	case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		f.Type = "map"
		f.Properties = s.number(map[string]*field{"*": s.field(p.AdditionalProperties.Schema, "")})
	case len(p.Properties) > 0:
		fields := map[string]*field{}
		for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
			property := p.Properties[name]
			fields[name] = s.field(&property, under(at, name))
		}
		f.Properties = s.number(fields)
	case p.Type == "string" && at != "":
		f.Enum = s.supported(at)
	case p.XIntOrString:
		f.Type = "integer or string"
	}
	for _, value := range p.Enum {
		f.Enum = append(f.Enum, strings.Trim(string(value.Raw), `"`))
	}
	return f
}

// under returns the path of a field beneath another.
func under(at, name string) string {
	if at == "" {
		return ""
	}
	return at + "." + name
}

// unsupported is the message of a rule about a field with a list of values.
var unsupported = regexp.MustCompile(`supported values: ("[^ ]+"(?:, "[^ ]+")*)`)

// supported returns the values that rules allow for a field: those that the message for a VM with
// another value lists.
func (s *schema) supported(at string) []string {
	if values, known := s.values[at]; known {
		return values
	}
	var object any = "?"
	for _, name := range slices.Backward(strings.Split(at, ".")) {
		if name == "[0]" {
			object = []any{object}
		} else {
			object = map[string]any{name: object}
		}
	}
	vm := object.(map[string]any)
	maps.Copy(vm, map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]string{"name": "vm"}})
	text, err := json.Marshal(vm)
	if err != nil {
		panic(err) // maps and strings
	}
	path := strings.ReplaceAll(at, ".[0]", "[0]")
	s.values[at] = nil
	for _, problem := range new(playground.Evaluator).Evaluate(context.Background(), playground.Input{VM: string(text)}).Problems {
		match := unsupported.FindStringSubmatch(problem.Message)
		if match != nil && problem.Field == path && !strings.Contains(match[1], "*") {
			s.values[at] = strings.Split(strings.Trim(match[1], `"`), `", "`)
		}
	}
	return s.values[at]
}

// number is the place of these fields among the maps.
func (s *schema) number(fields map[string]*field) *int {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers
	}
	number, known := s.numbers[string(text)]
	if !known {
		number = len(s.Maps)
		s.numbers[string(text)] = number
		s.Maps = append(s.Maps, fields)
	}
	return &number
}

// partialVMs gives the preset fields that hold a part of a VM the fields of VMs.
func (s *schema) partialVMs() {
	vm := s.Maps[*s.Kinds["VirtualMachine"].Properties]
	for _, name := range slices.Sorted(maps.Keys(s.Kinds)) {
		kind := s.Kinds[name]
		if !strings.HasSuffix(name, "VirtualMachinePreset") {
			continue
		}
		spec := s.Maps[*kind.Properties]["spec"]
		fields := maps.Clone(s.Maps[*spec.Properties])
		for _, part := range []string{"defaults", "overrides"} {
			with := *fields[part]
			with.Type, with.Properties = "object", s.number(map[string]*field{"metadata": vm["metadata"], "spec": vm["spec"]})
			fields[part] = &with
		}
		s.Maps[*spec.Properties] = fields
	}
}

// listStart matches the first element of a list.
var listStart = regexp.MustCompile(`(?m)^\s*[-*] `)

// firstSentence is the first sentence of a description, on one line, without a list and the
// sentence or line that introduces it.
func firstSentence(description string) string {
	paragraph, _, _ := strings.Cut(description, "\n\n")
	if at := listStart.FindStringIndex(paragraph); at != nil {
		paragraph = strings.TrimSpace(paragraph[:at[0]])
		if cut := max(strings.LastIndex(paragraph, "\n"), strings.LastIndex(paragraph, ". ")+1); cut > 0 && strings.HasSuffix(paragraph, ":") {
			paragraph = paragraph[:cut]
		}
	}
	text := strings.Join(strings.Fields(paragraph), " ")
	for end, c := range text {
		before := text[:end]
		inside := strings.Count(before, "(") > strings.Count(before, ")") || strings.HasSuffix(before, "e.g") || strings.HasSuffix(before, "i.e")
		if c == '.' && strings.HasPrefix(text[end:], ". ") && !inside {
			text = before + "."
			break
		}
	}
	if before, isLead := strings.CutSuffix(text, ":"); isLead {
		text = before + " …"
	}
	if len(text) > 240 {
		text = text[:strings.LastIndex(text[:240], " ")] + " …"
	}
	return text
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeJSON(t *testing.T, file string, value any) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, file, text.String())
}
