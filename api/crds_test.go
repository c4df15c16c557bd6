// Package api_test holds the generated CRDs to what the Go types and their users expect of them.
package api_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const crdFolder = "../charts/virtwright/files/crds"

// traits are what users meet of a CRD besides its schema.
type traits struct {
	Kind       string
	Plural     string
	ShortNames []string
	Categories []string
	Scope      apiextensionsv1.ResourceScope
	Versions   []version
}

// version is one version of a CRD. Columns read "Name=jsonPath"; those that only -o wide shows end
// in "+".
type version struct {
	Name       string
	Storage    bool
	Deprecated bool
	Status     bool
	Columns    []string
}

var presetVersions = []version{{
	Name: "v1alpha1", Storage: true, Status: true,
	Columns: []string{
		"Priority=.spec.priority", "Mode=.spec.mode", "Apply-At=.spec.applyAt", "Matched=.status.matched", "Outdated=.status.outdated",
		"Drifted=.status.drifted", "Violating=.status.violating", "Counted=.status.observedAt",
		`Ready=.status.conditions[?(@.type=="Ready")].status`, "Age=.metadata.creationTimestamp",
	},
}}

var profileVersions = []version{{
	Name: "v1alpha1", Storage: true, Columns: []string{"Priority=.spec.priority", "Age=.metadata.creationTimestamp"},
}}

func kubeVirtVersions(storage string, status bool, columns ...string) []version {
	return []version{
		{Name: "v1", Storage: storage == "v1", Status: status, Columns: columns},
		{Name: "v1alpha3", Storage: storage == "v1alpha3", Status: status, Columns: columns, Deprecated: true},
	}
}

// want is what each file in the folder of CRDs must be.
func want() map[string]traits {
	all := wantKubeVirt()
	all["virtwright.dev_virtualmachinepresets.yaml"] = traits{
		Kind: "VirtualMachinePreset", Plural: "virtualmachinepresets", ShortNames: []string{"vmpreset"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.NamespaceScoped, Versions: presetVersions,
	}
	all["virtwright.dev_clustervirtualmachinepresets.yaml"] = traits{
		Kind: "ClusterVirtualMachinePreset", Plural: "clustervirtualmachinepresets", ShortNames: []string{"cvmpreset"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.ClusterScoped, Versions: presetVersions,
	}
	all["virtwright.dev_frontendprofiles.yaml"] = traits{
		Kind: "FrontendProfile", Plural: "frontendprofiles", ShortNames: []string{"feprofile"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.ClusterScoped, Versions: profileVersions,
	}
	all["virtwright.dev_backendprofiles.yaml"] = traits{
		Kind: "BackendProfile", Plural: "backendprofiles", ShortNames: []string{"beprofile"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.ClusterScoped, Versions: profileVersions,
	}
	all["virtwright.dev_presetexceptions.yaml"] = traits{
		Kind: "PresetException", Plural: "presetexceptions", ShortNames: []string{"vmpe"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.NamespaceScoped,
		Versions: []version{{
			Name: "v1alpha1", Storage: true, Status: true,
			Columns: []string{
				"Presets=.spec.presets", `State=.status.conditions[?(@.type=="Active")].reason`,
				"Until=.spec.until", "VMs=.status.matched", "Last-Used=.status.lastUsed", "Reason=.spec.reason+", "Age=.metadata.creationTimestamp",
			},
		}},
	}
	all["virtwright.dev_presetrollouts.yaml"] = traits{
		Kind: "PresetRollout", Plural: "presetrollouts", ShortNames: []string{"vmpr"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.ClusterScoped,
		Versions: []version{{
			Name: "v1alpha1", Storage: true, Status: true,
			Columns: []string{
				`State=.status.conditions[?(@.type=="Progressing")].reason`, "Wave=.status.wave", "Step=.status.step", "Updated=.status.updated",
				"VMs=.status.selected", "Failed=.status.failed", "Presets=.spec.presets+", "Age=.metadata.creationTimestamp",
			},
		}},
	}
	all["ssp.kubevirt.io_virtualmachinetemplaterequests.yaml"] = traits{
		Kind: "VirtualMachineTemplateRequest", Plural: "virtualmachinetemplaterequests", ShortNames: []string{"vmtreq"},
		Categories: []string{"virtwright"}, Scope: apiextensionsv1.NamespaceScoped,
		Versions: []version{{
			Name: "v1alpha1", Storage: true, Status: true,
			Columns: []string{
				"VM=.spec.source.vmName", "Template=.status.templateRef.name", `Ready=.status.conditions[?(@.type=="Ready")].status`,
				`Reason=.status.conditions[?(@.type=="Ready")].reason`, `Verified=.status.conditions[?(@.type=="Verified")].status+`, "Age=.metadata.creationTimestamp",
			},
		}},
	}
	return all
}

func wantKubeVirt() map[string]traits {
	const age, ready = "Age=.metadata.creationTimestamp", "Ready=.status.conditions[?(@.type=='Ready')].status"
	machine := kubeVirtVersions("v1", true, age, "Status=.status.printableStatus", ready)
	seed := machine[0]
	seed.Name, seed.Storage = "v1alpha2", false
	legacy := kubeVirtVersions("v1alpha3", false)
	legacy[0].Deprecated = true
	return map[string]traits{
		"kubevirt.io_virtualmachines.yaml": {
			Kind: "VirtualMachine", Plural: "virtualmachines", ShortNames: []string{"vm", "vms"},
			Categories: []string{"all"}, Scope: apiextensionsv1.NamespaceScoped,
			Versions: append(machine, seed),
		},
		"kubevirt.io_virtualmachineinstances.yaml": {
			Kind: "VirtualMachineInstance", Plural: "virtualmachineinstances", ShortNames: []string{"vmi", "vmis"},
			Categories: []string{"all"}, Scope: apiextensionsv1.NamespaceScoped,
			Versions: kubeVirtVersions("v1", false, age, "Phase=.status.phase",
				"IP=.status.interfaces[0].ipAddress", "NodeName=.status.nodeName", ready,
				"Live-Migratable=.status.conditions[?(@.type=='LiveMigratable')].status+",
				"Paused=.status.conditions[?(@.type=='Paused')].status+"),
		},
		"kubevirt.io_virtualmachineinstancepresets.yaml": {
			Kind: "VirtualMachineInstancePreset", Plural: "virtualmachineinstancepresets",
			ShortNames: []string{"vmipreset", "vmipresets"},
			Categories: []string{"all"}, Scope: apiextensionsv1.NamespaceScoped, Versions: legacy,
		},
	}
}

func loadCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(crdFolder, file))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		t.Fatalf("cannot decode %s: %v", file, err)
	}
	return crd
}

func schemaOf(t *testing.T, file, versionName string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, v := range loadCRD(t, file).Spec.Versions {
		if v.Name == versionName {
			return *v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("%s has no version %s", file, versionName)
	return apiextensionsv1.JSONSchemaProps{}
}

func traitsOf(crd *apiextensionsv1.CustomResourceDefinition) traits {
	got := traits{
		Kind: crd.Spec.Names.Kind, Plural: crd.Spec.Names.Plural, ShortNames: crd.Spec.Names.ShortNames,
		Categories: crd.Spec.Names.Categories, Scope: crd.Spec.Scope,
	}
	for _, v := range crd.Spec.Versions {
		got.Versions = append(got.Versions, version{
			Name: v.Name, Storage: v.Storage, Deprecated: v.Deprecated,
			Status: v.Subresources != nil && v.Subresources.Status != nil, Columns: columnsOf(v),
		})
	}
	return got
}

func columnsOf(v apiextensionsv1.CustomResourceDefinitionVersion) []string {
	var columns []string
	for _, c := range v.AdditionalPrinterColumns {
		column := c.Name + "=" + c.JSONPath
		if c.Priority > 0 {
			column += "+"
		}
		columns = append(columns, column)
	}
	return columns
}

func TestCRDTraits(t *testing.T) {
	for file, want := range want() {
		t.Run(want.Kind, func(t *testing.T) {
			crd := loadCRD(t, file)
			if diff := cmp.Diff(want, traitsOf(crd)); diff != "" {
				t.Errorf("the CRD differs (-want +got):\n%s", diff)
			}
			for _, v := range crd.Spec.Versions {
				// v1alpha2 is not served without a conversion webhook.
				if v.Served != (v.Name != "v1alpha2") {
					t.Errorf("version %s: served is %t", v.Name, v.Served)
				}
			}
		})
	}
}

// The seed version is v1 with two fields more.
func TestSeedVersion(t *testing.T) {
	v1, seed := schemaOf(t, "kubevirt.io_virtualmachines.yaml", "v1"), schemaOf(t, "kubevirt.io_virtualmachines.yaml", "v1alpha2")
	disk := seed.Properties["spec"].Properties["template"].Properties["spec"].Properties["domain"].Properties["devices"].Properties["disks"].Items.Schema
	if disk.Properties["volumeName"].Type != "string" || seed.Properties["status"].Properties["virtualMachine"].Type != "string" {
		t.Fatal("v1alpha2 lacks volumeName or status.virtualMachine")
	}
	delete(disk.Properties, "volumeName")
	delete(seed.Properties["status"].Properties, "virtualMachine")
	dropDescriptions(&v1)
	if diff := cmp.Diff(v1, seed); diff != "" {
		t.Errorf("v1alpha2 differs from v1 in more (-v1 +v1alpha2):\n%s", diff)
	}
}

func dropDescriptions(s *apiextensionsv1.JSONSchemaProps) {
	s.Description = ""
	for name, property := range s.Properties {
		dropDescriptions(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		dropDescriptions(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		dropDescriptions(s.AdditionalProperties.Schema)
	}
}

func TestEveryCRDIsKnownHere(t *testing.T) {
	entries, err := os.ReadDir(crdFolder)
	if err != nil {
		t.Fatal(err)
	}
	known := want()
	for _, e := range entries {
		if _, ok := known[e.Name()]; !ok {
			t.Errorf("%s has no row in this test", e.Name())
		}
	}
}

// An object in etcd may have 1.5 MiB, with the managed fields that each manager adds.
func TestCRDsFitIntoETCD(t *testing.T) {
	for file := range want() {
		content, err := json.Marshal(loadCRD(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > 512<<10 {
			t.Errorf("%s has %d bytes", file, len(content))
		}
	}
}

// The schema accepts any partial VM, because the webhook has better messages.
func TestPartialsAreOpen(t *testing.T) {
	open := true
	for _, file := range presetFiles() {
		spec := schemaOf(t, file, "v1alpha1").Properties["spec"]
		for _, field := range []string{"defaults", "overrides"} {
			got := spec.Properties[field]
			got.Description = ""
			want := apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &open, Nullable: true}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: spec.%s differs (-want +got):\n%s", file, field, diff)
			}
		}
	}
}

func TestBothPresetKindsShareTheirSpec(t *testing.T) {
	files := presetFiles()
	first, second := schemaOf(t, files[0], "v1alpha1"), schemaOf(t, files[1], "v1alpha1")
	if diff := cmp.Diff(first.Properties["spec"], second.Properties["spec"]); diff != "" {
		t.Errorf("%s and %s differ:\n%s", files[0], files[1], diff)
	}
}

// Only the namespaced kind rejects match.namespaces, and says what to do instead.
func TestNamespacedPresetRejectsNamespaces(t *testing.T) {
	namespaced := schemaOf(t, "virtwright.dev_virtualmachinepresets.yaml", "v1alpha1").XValidations
	if len(namespaced) != 1 || !strings.Contains(namespaced[0].Message, "ClusterVirtualMachinePreset") {
		t.Errorf("want one rule that names ClusterVirtualMachinePreset, got %v", namespaced)
	}
	if rules := schemaOf(t, "virtwright.dev_clustervirtualmachinepresets.yaml", "v1alpha1").XValidations; len(rules) != 0 {
		t.Errorf("want no rule on the cluster kind, got %v", rules)
	}
}

// kubectl explain teaches: each field says something, and those that hold more than a scalar show
// an example.
func TestPresetFieldsTeach(t *testing.T) {
	for _, file := range presetFiles() {
		root := schemaOf(t, file, "v1alpha1")
		for path, field := range described("spec", root.Properties["spec"]) {
			if field.Description == "" {
				t.Errorf("%s: %s says nothing", file, path)
			}
		}
		for name, field := range root.Properties["spec"].Properties {
			if field.Type != "string" && field.Type != "integer" && !strings.Contains(field.Description, "example") {
				t.Errorf("%s: spec.%s shows no example", file, name)
			}
		}
	}
}

// The rules of requests are in the schema, and so is the short form, which only webhooks take away.
func TestTemplateRequestRules(t *testing.T) {
	spec := schemaOf(t, "ssp.kubevirt.io_virtualmachinetemplaterequests.yaml", "v1alpha1").Properties["spec"]
	if len(spec.XValidations) != 2 || len(spec.Properties["target"].XValidations) != 1 {
		t.Errorf("want two rules of spec and one of target, got %v and %v", spec.XValidations, spec.Properties["target"].XValidations)
	}
	for _, short := range []string{"vmName", "templateName", "format"} {
		if spec.Properties[short].Type != "string" {
			t.Errorf("the schema drops spec.%s before anybody can expand it", short)
		}
	}
	if want := []string{"source", "target"}; !slices.Equal(spec.Required, want) {
		t.Errorf("want %v required, got %v", want, spec.Required)
	}
	for path, field := range described("spec", spec) {
		if field.Description == "" {
			t.Errorf("%s says nothing", path)
		}
	}
}

// described is every field of ours below a schema by path; what lies in a label selector is
// Kubernetes' to describe.
func described(path string, schema apiextensionsv1.JSONSchemaProps) map[string]apiextensionsv1.JSONSchemaProps {
	fields := map[string]apiextensionsv1.JSONSchemaProps{path: schema}
	if schema.Items != nil {
		schema = *schema.Items.Schema
	}
	for name, child := range schema.Properties {
		maps.Copy(fields, described(path+"."+name, child))
	}
	return fields
}

func presetFiles() []string {
	var files []string
	for file := range want() {
		if strings.HasPrefix(file, "virtwright.dev_") && strings.HasSuffix(file, "presets.yaml") {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}
